"""Python types for the nodes of Lazuli's autograd, under torch's names for them.

`type(y.grad_fn).__name__` is `MulBackward0` on every device. Torch keeps a table from C++ types of
nodes to Python types, and has a function that makes such a type; libtorch_python exports both.
"""

import ctypes
from pathlib import Path

import torch

MAKE = "_ZN5torch8autograd25_initFunctionPyTypeObjectER11_typeobjectPKcP11PyGetSetDefP11PyMethodDef"
REGISTER = "_ZN5torch8autograd19registerCppFunctionERKSt9type_infoP11_typeobject"


def register() -> None:
    """Gives each kind of node its type; without these functions torch calls all CppFunction."""
    library = ctypes.PyDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_python.so"))
    try:
        make, add = library[MAKE], library[REGISTER]
    except AttributeError:
        return
    make.restype = ctypes.c_void_p
    make.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    add.restype = None
    add.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    addresses = torch.ops.lazuli._node_types()
    for name, type_info, memory in zip(
        addresses[::3], addresses[1::3], addresses[2::3], strict=True
    ):
        make(memory, name, None, None)
        add(type_info, memory)
