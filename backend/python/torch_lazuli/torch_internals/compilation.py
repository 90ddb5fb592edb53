"""What torch.compile's parts know of devices: Inductor, and Python's kernels for symbolic sizes."""

import functools

import torch

from torch_lazuli.devices import TYPE


def leave_to_the_device() -> None:
    """Gives graphs on the device that torch.compile would give Inductor to the backend `lazuli`.

    Inductor, the default backend, has no code for the device.
    """
    wrapper = torch._TorchCompileInductorWrapper
    original = wrapper.__call__

    @functools.wraps(original)
    def compile_graph(self, graph, inputs):
        from torch_lazuli.compiler import backend

        if TYPE in backend.device_types(graph, inputs):
            return backend.lazuli(graph, inputs)
        return original(self, graph, inputs)

    wrapper.__call__ = compile_graph


def trace_lstms_in_other_operators() -> None:
    """Leaves an LSTM of symbolic sizes to torch's decomposition.

    Our kernel takes sizes as they are, and goes before that where torch looks for Python's kernels.
    """
    lstm = torch.ops.aten.lstm.input

    def decomposed(*arguments, **named):
        from torch._decomp.decompositions import lstm_impl

        return lstm_impl(*arguments, **named)

    for key in (torch._C.DispatchKey.PrivateUse1, torch._C.DispatchKey.AutogradPrivateUse1):
        lstm.py_impl(key)(decomposed)
