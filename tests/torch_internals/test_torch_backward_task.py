"""backend/torch_internals/backward_task.h"""

import threading

import torch


class Watching(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, notes):
        ctx.notes = notes
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        node = torch._C._current_autograd_node.__wrapped__()
        ctx.notes.append((node.name(), threading.get_ident()))
        return gradient, None


def test_the_engine_gives_each_backward_to_its_hook(device):
    notes = []
    x = torch.ones(2, device=device, requires_grad=True)
    (Watching.apply(x, notes) * 2).sum().backward()
    torch.autograd.grad((Watching.apply(x, notes) * 2).sum(), x)
    assert notes == [("LazuliBackward", threading.get_ident())] * 2, (
        "torch's engine must hand each backward to what Engine::set_compiled_autograd was given, "
        "and execute_with_graph_task must run one node in its place, on the caller's thread"
    )


def test_the_task_knows_how_many_edges_lead_to_a_node(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = torch.special.i1(x * 2)  # with a node of torch
    z = (y * 3 + y * 4 + torch.special.i1(y)).sum()
    calls = []
    y.grad_fn.register_prehook(lambda gradients: calls.append(gradients))
    z.backward()
    assert len(calls) == 1, (
        "GraphTask::dependencies_ must have counted the edges that lead to a node: "
        "a node has its turn when all have been followed"
    )


def test_the_task_knows_what_is_wanted(device):
    x, w = (torch.ones(2, device=device, requires_grad=True) for _ in range(2))
    y = torch.special.i1(x * 2)
    z = (y * w).sum()
    calls = []
    w.register_hook(lambda g: calls.append(g))
    (to_y,) = torch.autograd.grad(z, y, retain_graph=True)
    assert to_y.tolist() == [1.0, 1.0], (
        "GraphTask::exec_info_ must hold the captures of a node, and captured_vars_ the results"
    )
    assert not calls, "GraphTask::exec_info_ must leave out nodes that nothing is wanted of"
    z.backward()
    assert len(calls) == 1
