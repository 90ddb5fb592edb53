"""backend/python/torch_lazuli/torch_internals/node_types.py"""

import ctypes
from pathlib import Path

import torch
from torch_lazuli.torch_internals import node_types

ROOM = 1024  # in bytes: `python_type` in backend/autograd/light.h


def test_libtorch_python_exports_what_makes_types_of_nodes(device):
    library = ctypes.PyDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_python.so"))
    for symbol in (node_types.MAKE, node_types.REGISTER):
        assert hasattr(library, symbol), f"libtorch_python must export {symbol}"
    y = torch.ones(2, device=device, requires_grad=True) * 2
    assert type(y.grad_fn).__name__ == "MulBackward0", (
        "registerCppFunction must give a C++ type of node its Python type"
    )


def test_there_is_room_for_pythons_type():
    assert type.__basicsize__ <= ROOM, "a PyTypeObject must fit into what a kind of node has for it"
