"""The few places where torch's Python has to know the device.

Each replaces a function of torch by one that does the same for every other device.
"""

import ctypes
import functools
import logging
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import torch
import torch._tensor_str
from torch.optim import adam
from torch.optim.optimizer import register_optimizer_step_post_hook

from torch_lazuli import reference
from torch_lazuli.devices import TYPE

_applied = False


class _engine:
    """Whether backward goes through Lazuli's hook of torch's engine."""

    ours = True


def apply(library: Path) -> None:
    """Puts all patches in place, once."""
    global _applied
    if _applied:
        return
    _applied = True
    _make_quantized_tensors_beside_their_like()
    _print_from_the_host()
    _read_and_write_storages_through_the_host()
    _lend_addresses()
    _send_to_processes_through_the_host()
    _leave_compilation_to_the_device()
    _take_the_engine_back_after_compiled_autograd()
    _show_backward_its_roots(library)
    _say_which_node_runs()
    _trace_lstms_in_other_operators()
    if reference.is_on():
        reference.step_optimizers_as_eager()
    else:
        _step_adam_in_one_call()
    register_optimizer_step_post_hook(_end_step)


def _trace_lstms_in_other_operators() -> None:
    """Leaves an LSTM of symbolic sizes to torch's decomposition.

    Our kernel takes sizes as they are, and goes before that where torch looks for Python's kernels.
    """
    lstm = torch.ops.aten.lstm.input

    def decomposed(*arguments, **named):
        from torch._decomp.decompositions import lstm_impl

        return lstm_impl(*arguments, **named)

    for key in (torch._C.DispatchKey.PrivateUse1, torch._C.DispatchKey.AutogradPrivateUse1):
        lstm.py_impl(key)(decomposed)


def _lend_addresses() -> None:
    """Lets `data_ptr` give an address where the numbers are, for the host to read and write.

    Torch would give what stands for the storage in C++, which is no memory.
    """
    of_tensor, of_storage = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr
    no_dispatch = torch._C._disabled_torch_dispatch_impl

    @functools.wraps(of_tensor)
    def tensor_data_ptr(self):
        # Subclasses that dispatch, and what functorch wraps, have no memory of their own.
        wraps = type(self).__torch_dispatch__ is not no_dispatch or not torch._C._has_storage(self)
        if self.device.type != TYPE or wraps:
            return of_tensor(self)
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
            return torch.ops.lazuli._lend_address(self)

    @functools.wraps(of_storage)
    def storage_data_ptr(self):
        if self.device.type != TYPE:
            return of_storage(self)
        every_byte = torch.empty(0, dtype=torch.uint8, device=self.device)
        return every_byte.set_(self, 0, (self.nbytes(),), (1,)).data_ptr()

    torch.Tensor.data_ptr = tensor_data_ptr
    torch.UntypedStorage.data_ptr = storage_data_ptr


def _take_the_engine_back_after_compiled_autograd() -> None:
    """Compiled autograd uses the same hook of torch's engine, and leaves it empty."""
    module = torch._C._dynamo.compiled_autograd
    original = module.set_autograd_compiler

    @functools.wraps(original)
    def set_autograd_compiler(compiler, *args):
        result = original(compiler, *args)
        _engine.ours = compiler is None
        if _engine.ours:
            torch.ops.lazuli._take_engine()
        return result

    module.set_autograd_compiler = set_autograd_compiler


def _show_backward_its_roots(path: Path) -> None:
    """Tells the plugin which tensors a backward starts from, before torch asks them for nodes.

    So their graph needs no nodes, where none was asked for. What makes a backward unusual in
    Python's eyes is left out; the plugin looks at the rest.
    """
    plugin = ctypes.PyDLL(str(path))
    begin, begin_of = plugin.lazuli_begin_backward, plugin.lazuli_begin_backward_of
    begin.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    begin_of.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    end = plugin.lazuli_end_backward
    begin.restype = begin_of.restype = end.restype = None
    graph, is_mode = torch.autograd.graph, torch._C._is_torch_function_mode_enabled
    original, tensor = graph._engine_run_backward, torch.Tensor
    plain = (tensor, torch.nn.Parameter)
    log, run = graph.log, torch.autograd.Variable._execution_engine.run_backward

    def show(roots, gradients, others) -> None:
        tensors = [*roots, *gradients, *(t for t in others if isinstance(t, tensor))]
        if not all(t is None or type(t) in plain for t in tensors):
            return
        addresses = [None if t is None else t._cdata for t in tensors]
        array = (ctypes.c_void_p * len(addresses))(*addresses)
        begin(len(roots), len(addresses) - 2 * len(roots), array)

    @functools.wraps(original)
    def run_backward(roots, gradients, keep_graph, create_graph, others=(), *args, **kwargs):
        if create_graph or not _engine.ours or is_mode() or log.isEnabledFor(logging.DEBUG):
            return original(roots, gradients, keep_graph, create_graph, others, *args, **kwargs)
        try:
            if not others and len(roots) == 1 and type(roots[0]) is type(gradients[0]) is tensor:
                begin_of(roots[0]._cdata, gradients[0]._cdata)
            else:
                show(roots, gradients, others)
            # What torch's function does when nobody wants to know of each node.
            return run(roots, gradients, keep_graph, create_graph, others, *args, **kwargs)
        except BaseException:
            end()
            raise

    graph._engine_run_backward = torch.autograd._engine_run_backward = run_backward


def _say_which_node_runs() -> None:
    """To torch's engine a backward that it handed over is one node."""
    original = torch._C._current_autograd_node

    @functools.wraps(original)
    def _current_autograd_node():
        shown = torch.ops.lazuli._running_node()
        return original() if shown is None else shown.grad_fn

    torch._C._current_autograd_node = _current_autograd_node


def _step_adam_in_one_call() -> None:
    """Takes Adam's fused operator where torch takes one operator after the other over lists.

    The graph is the same in the end; recording it costs a fraction, and so does Python, which
    otherwise computes lists of bias corrections.
    """
    original = adam._multi_tensor_adam

    def fits(
        params,
        *,
        lr,
        beta1,
        beta2,
        grad_scale,
        found_inf,
        capturable,
        differentiable,
        has_complex,
        **_,
    ):
        return (
            params
            and all(isinstance(number, float | int) for number in (lr, beta1, beta2))
            and grad_scale is found_inf is None
            and not (capturable or differentiable or has_complex)
            and all(p.device.type == TYPE and p.dtype == params[0].dtype for p in params)
        )

    def in_one_call(*lists, capturable, differentiable, has_complex, **options):
        torch.ops.lazuli._count_steps(lists[-1])
        decoupled = options.pop("decoupled_weight_decay")
        (torch._fused_adamw_ if decoupled else torch._fused_adam_)(*lists, **options)
        parameters, _, means, squares, largest, _ = lists
        decays = decoupled and options["weight_decay"] != 0
        writes = (parameters, 1 + decays), (means, 1), (squares, 2), (largest, 1)
        # Of tensors of other classes, such as shares of distributed ones, their own counters.
        with torch._C._DisableTorchDispatch():
            for written, times in writes:
                if written:
                    torch.ops.lazuli._count_writes(written, times)

    @functools.wraps(original)
    def multi_tensor_adam(*lists, **options):
        fused = len(lists) == 6 and fits(lists[0], **options)
        return (in_one_call if fused else original)(*lists, **options)

    adam._multi_tensor_adam = multi_tensor_adam


def _make_quantized_tensors_beside_their_like() -> None:
    """Makes an empty quantized tensor on the device of the one whose parameters it takes over.

    Torch's Python hands its default device over where none is given, which is the host.
    """
    original = torch.empty_quantized

    @functools.wraps(original)
    def empty_quantized(size, qtensor, *, device=None, **options):
        device = qtensor.device if device is None and qtensor.device.type == TYPE else device
        return original(size, qtensor, device=device, **options)

    torch.empty_quantized = empty_quantized


def _print_from_the_host() -> None:
    """Copies a tensor to the host before it is printed: torch asks for its numbers one by one."""
    original = torch._tensor_str._tensor_str

    @functools.wraps(original)
    def tensor_str(self, indent):
        return original(self.detach().cpu() if self.device.type == TYPE else self, indent)

    torch._tensor_str._tensor_str = tensor_str


def _read_and_write_storages_through_the_host() -> None:
    """Keeps torch from reading a storage's memory directly, which may not exist yet.

    Writing and reading files is behind `pickle` and the older file format of `torch.save`; the
    newer one copies to the host by itself.
    """
    write, read = torch.UntypedStorage._write_file, torch.UntypedStorage._set_from_file

    @functools.wraps(write)
    def write_file(self, *args, **kwargs):
        return write(self.cpu() if self.device.type == TYPE else self, *args, **kwargs)

    @functools.wraps(read)
    def set_from_file(self, *args, **kwargs):
        if self.device.type != TYPE:
            return read(self, *args, **kwargs)
        host = torch.UntypedStorage(self.nbytes())
        read(host, *args, **kwargs)
        self.copy_(host)
        return self

    get = torch.UntypedStorage.__getitem__

    @functools.wraps(get)
    def getitem(self, *args, **kwargs):
        if args and isinstance(args[0], slice) and self.device.type == TYPE:
            raise NotImplementedError(
                "lazuli: a part of a storage would be a window on memory that may not exist yet; "
                "take a part of a tensor, or of the storage's copy on the host"
            )
        return get(self, *args, **kwargs)

    torch.UntypedStorage.__getitem__ = getitem
    torch.UntypedStorage._write_file = write_file
    torch.UntypedStorage._set_from_file = set_from_file


def _send_to_processes_through_the_host() -> None:
    """Lets tensors go through queues and to loaders' workers: a process gets a copy.

    Memory of the device is no other process's, and there may be none yet.
    """
    reductions = torch.multiprocessing.reductions
    original = reductions.reduce_tensor

    @functools.wraps(original)
    def reduce_tensor(tensor):
        fails = tensor.requires_grad and not tensor.is_leaf  # the original says why
        if tensor.device.type != TYPE or fails:
            return original(tensor)
        host = tensor.detach().cpu()
        return _from_host, (type(tensor), host, tensor.requires_grad)

    reductions.reduce_tensor = reduce_tensor
    kinds = [kind for kind in ForkingPickler._extra_reducers if _is_tensor(kind)]
    for kind in kinds:
        ForkingPickler.register(kind, reduce_tensor)


def _leave_compilation_to_the_device() -> None:
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
    tensors = [t for t in (*inputs, *graph.parameters(), *graph.buffers()) if _is_tensor(type(t))]
    if tensors:
        return any(t.device.type == TYPE for t in tensors)
    made_on = (node.kwargs.get("device") for node in graph.graph.nodes)
    return any(device is not None and torch.device(device).type == TYPE for device in made_on)


def _is_tensor(kind: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, torch.Tensor)


def _from_host(kind: type, host: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    tensor = host.to(TYPE)
    if issubclass(kind, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _end_step(optimizer: torch.optim.Optimizer, args, kwargs) -> None:
    """Ends the trace after an optimizer's step, so that a training loop repeats one trace."""
    for group in optimizer.param_groups:
        parameters = group["params"]
        if parameters and parameters[0].device.type == TYPE:
            torch.ops.lazuli._step_end()
            return
