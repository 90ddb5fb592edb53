"""What torch.compile's parts know of devices: Inductor, and Python's kernels for symbolic sizes."""

import contextlib
import functools

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.operators import ops


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


# By operator, torch's function that says what it consists of.
RECURRENT = {
    "lstm.input": "lstm_impl",
    "lstm.data": "lstm_data_impl",
    "gru.input": "gru_impl",
    "gru.data": "gru_impl_data",
    "rnn_tanh.input": "rnn_tanh_input",
    "rnn_tanh.data": "rnn_tanh_data",
    "rnn_relu.input": "rnn_relu_input",
    "rnn_relu.data": "rnn_relu_data",
}


def trace_recurrent_networks_in_other_operators() -> None:
    """Leaves recurrent networks of graphs that are traced to torch's decompositions.

    Our kernels take sizes as they are, and go before that where torch looks for Python's kernels.
    An export that keeps the operator puts its own function in the decomposition's place.
    """
    for name, decomposition in RECURRENT.items():
        packet, overload = name.split(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        for key in (torch._C.DispatchKey.PrivateUse1, torch._C.DispatchKey.AutogradPrivateUse1):
            operator.py_impl(key)(functools.partial(_decompose, operator, decomposition))


def _decompose(operator, decomposition: str, *arguments, **named):
    from torch._decomp import decompositions

    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    chosen = operator.py_kernels.get(composite, getattr(decompositions, decomposition))
    result = chosen(*arguments, **named)
    if result is not NotImplemented:
        return result
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments, **named)


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


@contextlib.contextmanager
def attention_kept():
    """Graphs traced meanwhile, on this thread, have attention as one operator.

    Others have what it consists of, which whoever takes them knows.
    """
    know_results_of_attention()
    before = ops._keep_attention(True)
    try:
        yield
    finally:
        ops._keep_attention(before)


@functools.cache
def know_results_of_attention() -> None:
    """Says what attention gives on the device: torch says it for its own devices' kernels."""
    from torch._subclasses.fake_impls import register_op_impl

    aten = torch.ops.aten

    def heads_last(like: torch.Tensor) -> torch.Tensor:
        batch, heads, rows, columns = like.shape
        return like.new_empty(batch, rows, heads, columns).transpose(1, 2)

    @register_op_impl(aten._scaled_dot_product_fused_attention_overrideable.default)
    def attention(mode, operator, query, key, value, bias=None, dropout_p=0.0, *others, **named):
        if query.device.type != TYPE:
            return NotImplemented
        on_gpu = ops._backing().type != "cpu"
        result = heads_last(query) if on_gpu else torch.empty_like(query)
        # Only the device's own derivative reads this, whatever its sizes are.
        statistics = query.new_empty(query.shape[:3], dtype=torch.float32)
        rows, keys = query.shape[2], key.shape[2]
        dropped = query.new_empty(2, dtype=torch.int64) if dropout_p else None
        return result, statistics, None, None, rows, keys, dropped, None, None

    @register_op_impl(aten._scaled_dot_product_fused_attention_overrideable_backward.default)
    def backward(mode, operator, gradient, query, key, value, bias, wanted, *arguments, **named):
        if query.device.type != TYPE:
            return NotImplemented
        of_bias = torch.empty_like(bias) if bias is not None and wanted[3] else None
        return *map(heads_last, (query, key, value)), of_bias


def default_partition(joint: torch.fx.GraphModule, *arguments, **named):
    """Takes a graph of forward and backward apart, as AOTAutograd does unless told otherwise."""
    from torch._functorch.partitioners import default_partition

    return default_partition(joint, *arguments, **named)


def is_autograd_compiled() -> bool:
    """Whether compiled autograd is on: it traces what backward reads on the original devices."""
    from torch._dynamo import compiled_autograd, config

    return compiled_autograd.compiled_autograd_enabled or config.compiled_autograd


def is_decided_by_data(node: torch.fx.Node) -> bool:
    """Whether what it gives, or the size of it, is known only when numbers have been read."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    symbolic = torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool
    return any(free_unbacked_symbols(v) for v in values if isinstance(v, symbolic))


def op_by_op(graph: torch.fx.GraphModule, inputs: list):
    """A function that runs Dynamo's graph as eager would."""
    from torch._dynamo.backends.debugging import aot_eager

    # A checkpoint that runs as it stands in the graph may draw other random numbers in backward.
    checkpoint = torch.ops.higher_order.tag_activation_checkpoint
    if any(node.target is checkpoint for node in graph.graph.nodes):
        return aot_eager(graph, inputs)
    return graph.forward


def writes_to_inputs() -> bool:
    """Whether the graph does whose forward AOTAutograd is about to have compiled."""
    context = torch._guards.TracingContext.try_get()
    facts = getattr(context, "fw_metadata", None)
    return facts is None or any(x.mutates_data or x.mutates_metadata for x in facts.input_info)


@contextlib.contextmanager
def computed_now():
    """Operators compute meanwhile, on the CPU by default, though a graph is being traced."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.utils._python_dispatch import _disable_current_modes

    on_cpu = torch.device("cpu")
    with torch.no_grad(), unset_fake_temporarily(), _disable_current_modes(), on_cpu:
        yield
