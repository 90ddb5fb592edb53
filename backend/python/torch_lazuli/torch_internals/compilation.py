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
    An export that keeps the operator puts its own function in the decomposition's place.
    """
    lstm = torch.ops.aten.lstm.input
    composite = torch._C.DispatchKey.CompositeImplicitAutograd

    def decomposed(*arguments, **named):
        from torch._decomp.decompositions import lstm_impl

        chosen = lstm.py_kernels.get(composite, lstm_impl)
        result = chosen(*arguments, **named)
        if result is not NotImplemented:
            return result
        with torch._C._AutoDispatchBelowAutograd():
            return lstm(*arguments, **named)

    for key in (torch._C.DispatchKey.PrivateUse1, torch._C.DispatchKey.AutogradPrivateUse1):
        lstm.py_impl(key)(decomposed)


def decompose_what_the_cpu_does() -> None:
    """Lets graphs have the operators that they have on the CPU.

    Torch keeps an operator that a device has a kernel of, such as `linear`, where it would trace
    what the operator consists of otherwise. What takes a graph, such as ONNX, may not know it.
    """
    from torch._subclasses import functional_tensor
    from torch.fx.experimental import proxy_tensor

    original = proxy_tensor.autograd_would_have_decomposed
    on_cpu = torch.empty(0)

    @functools.wraps(original)
    def would_have_decomposed(operator, arguments):
        tensor = next((x for x in arguments if isinstance(x, torch.Tensor)), None)
        ours = tensor is not None and tensor.device.type == TYPE
        return original(operator, [on_cpu] if ours else arguments)

    for module in (proxy_tensor, functional_tensor):
        module.autograd_would_have_decomposed = would_have_decomposed


@functools.cache
def save_random_states_in_graphs() -> None:
    """Lets graphs that compute a part anew (checkpoints) draw the same random numbers again.

    Torch's two operators for it ask which kind of device their operands are on, of a fixed list.
    """
    from torch._prims import rng_prims

    select = torch._C.DispatchKey.BackendSelect

    def replace(operator, ours) -> None:
        original = operator.py_kernels[select]

        @functools.wraps(original)
        def selected(*arguments, **named):
            tensors = torch.utils._pytree.tree_leaves((arguments, named))
            on_device = any(isinstance(t, torch.Tensor) and t.device.type == TYPE for t in tensors)
            return (ours if on_device else original)(*arguments, **named)

        operator.py_kernels[select] = selected
        operator._dispatch_cache.clear()

    def run_and_save(operator, *arguments, **named):
        return torch.lazuli.get_rng_state(), operator(*arguments, **named)

    def run_with(state, operator, *arguments, **named):
        before = torch.lazuli.get_rng_state()
        torch.lazuli.set_rng_state(state)
        try:
            return operator(*arguments, **named)
        finally:
            torch.lazuli.set_rng_state(before)

    replace(rng_prims.run_and_save_rng_state, run_and_save)
    replace(rng_prims.run_with_rng_state, run_with)
