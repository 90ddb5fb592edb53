"""Python's way into torch's autograd engine: who gives it a backward, and who has its hook."""

import ctypes
import functools
import logging
from pathlib import Path

import torch


class _engine:
    """Whether backward goes through Lazuli's hook of torch's engine."""

    ours = True


def take_back_after_compiled_autograd() -> None:
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


def show_backward_its_roots(path: Path) -> None:
    """Tells the plugin which tensors a backward starts from, before torch asks them for nodes.

    So their graph needs no nodes, where none was asked for. What makes a backward unusual in
    Python's eyes is left out; the plugin looks at the rest. Backwards of several threads enter
    torch's engine one after the other: on the way to its hook it takes no two.
    """
    plugin = ctypes.PyDLL(str(path))
    begin, begin_of = plugin.lazuli_begin_backward, plugin.lazuli_begin_backward_of
    begin.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    begin_of.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    enter, leave = plugin.lazuli_enter_engine, plugin.lazuli_leave_engine
    for function in (begin, begin_of, enter, leave):
        function.restype = None
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
        if not _engine.ours:
            return original(roots, gradients, keep_graph, create_graph, others, *args, **kwargs)
        try:
            enter()
            if create_graph or is_mode() or log.isEnabledFor(logging.DEBUG):
                return original(roots, gradients, keep_graph, create_graph, others, *args, **kwargs)
            if not others and len(roots) == 1 and type(roots[0]) is type(gradients[0]) is tensor:
                begin_of(roots[0]._cdata, gradients[0]._cdata)
            else:
                show(roots, gradients, others)
            # What torch's function does when nobody wants to know of each node.
            return run(roots, gradients, keep_graph, create_graph, others, *args, **kwargs)
        finally:
            leave()

    graph._engine_run_backward = torch.autograd._engine_run_backward = run_backward


def say_which_node_runs() -> None:
    """To torch's engine a backward that it handed over is one node."""
    original = torch._C._current_autograd_node

    @functools.wraps(original)
    def _current_autograd_node():
        shown = torch.ops.lazuli._running_node()
        return original() if shown is None else shown.grad_fn

    torch._C._current_autograd_node = _current_autograd_node
