"""backend/python/torch_lazuli/torch_internals/engine.py"""

import logging

import torch
from torch._dynamo import compiled_autograd
from torch_lazuli.operators import ops


class Name(torch.autograd.Function):
    """Notes what runs its backward, as torch's engine sees it."""

    @staticmethod
    def forward(ctx, x, names):
        ctx.names = names
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.names.append(torch._C._current_autograd_node.__wrapped__().name())
        return gradient, None


def name_of_runner() -> str:
    names = []
    Name.apply(torch.ones(2, device="lazuli", requires_grad=True), names).mul(2).sum().backward()
    return names[0]


def test_every_backward_goes_through_one_function(spy):
    calls = spy(torch.autograd, "_engine_run_backward")
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    torch.autograd.grad((x * 2).sum(), x)
    torch.autograd.backward([x * 2], [torch.ones(2)])
    assert len(calls) == 3, (
        "torch.autograd.backward and grad must call torch.autograd._engine_run_backward: there "
        "Lazuli learns the roots before torch asks them for nodes"
    )


def test_that_function_only_calls_the_engine(monkeypatch):
    class Engine:
        def run_backward(self, *arguments, **named):
            return arguments, named

    monkeypatch.setattr(torch.autograd.Variable, "_execution_engine", Engine())
    x = torch.ones(2, requires_grad=True).sum()
    arguments, named = ((x,), (None,), False, False, ()), {"accumulate_grad": True}
    result = torch.autograd.graph._engine_run_backward.__wrapped__(*arguments, **named)
    assert result == (arguments, named), (
        "_engine_run_backward must do no more than call the engine, with its own arguments, unless "
        "nodes are logged: Lazuli calls the engine in its place"
    )


def test_compiled_autograd_takes_the_hook_by_one_function(spy):
    calls = spy(torch._C._dynamo.compiled_autograd, "set_autograd_compiler")
    with compiled_autograd._enable(lambda graph: graph):
        when_on = len(calls)
    assert (when_on, len(calls)) == (1, 2), (
        "torch._dynamo.compiled_autograd must turn itself on and off by set_autograd_compiler"
    )


def test_compiled_autograd_leaves_the_hook_empty():
    module = torch._C._dynamo.compiled_autograd
    module.set_autograd_compiler.__wrapped__(None, False)
    try:
        assert name_of_runner() != "LazuliBackward", (
            "set_autograd_compiler leaves the engine's hook in place now: it need not be taken back"
        )
    finally:
        ops._take_engine()


def test_python_asks_by_one_function_which_node_runs(spy, monkeypatch):
    calls = spy(torch._C, "_current_autograd_node")
    monkeypatch.setattr(torch.autograd.graph.log, "level", logging.DEBUG)
    torch.autograd.graph.log.manager._clear_cache()
    torch.ones(2, requires_grad=True).sum().backward()
    torch.autograd.graph.log.manager._clear_cache()
    assert calls, "torch's Python must ask torch._C._current_autograd_node which node runs"


def test_the_engine_knows_one_node_of_a_backward_of_ours():
    assert name_of_runner() == "LazuliBackward", (
        "torch._C._current_autograd_node names the node in a backward that was handed over now: it "
        "need not be replaced"
    )
