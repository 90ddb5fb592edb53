"""What torch.compile's parts know of devices: Inductor, and Python's kernels for symbolic sizes."""

import functools
import itertools

import torch

from torch_lazuli.devices import TYPE


def leave_to_the_device() -> None:
    """Runs the graphs that torch.compile has captured on the device op by op: it fuses them itself.

    Inductor, the default backend, has no code for the device.
    """
    wrapper = torch._TorchCompileInductorWrapper
    original = wrapper.__call__

    @functools.wraps(original)
    def compile_graph(self, graph, inputs):
        return graph.forward if _is_on_device(graph, inputs) else original(self, graph, inputs)

    wrapper.__call__ = compile_graph


def _is_on_device(graph: torch.fx.GraphModule, inputs) -> bool:
    # Compiled autograd gives its operands as a list.
    lists = [x if isinstance(x, list | tuple) else (x,) for x in inputs]
    everything = (*itertools.chain(*lists), *graph.parameters(), *graph.buffers())
    tensors = [t for t in everything if isinstance(t, torch.Tensor)]
    if tensors:
        return any(t.device.type == TYPE for t in tensors)
    made_on = (node.kwargs.get("device") for node in graph.graph.nodes)
    return any(device is not None and torch.device(device).type == TYPE for device in made_on)


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
