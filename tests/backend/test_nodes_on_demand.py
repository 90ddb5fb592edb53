"""Autograd nodes that are made when somebody asks for them, and backward through what has none.

Whenever a program asks, and whatever it does with the answer, it sees what it sees on the CPU.
"""

import copy
import gc
import threading
import weakref

import pytest
import torch
from differential import Double, assert_same, assert_same_error, normal


def names(node, depth=6):
    """A graph as nested names, from a node on."""
    if node is None or depth == 0:
        return None
    return node.name(), [(names(n, depth - 1), i) for n, i in node.next_functions]


def test_graph_before_and_after_backward():
    def look(device):
        x = normal(3, 4, device=device, grad=True)
        w = normal(4, 2, device=device, grad=True)
        y = (torch.tanh(x @ w) * 3 + x[:, :2]).sum()
        before = names(y.grad_fn)
        y.backward()
        z = (torch.tanh(x @ w) * 3 + x[:, :2]).sum()
        z.backward()
        return before, names(y.grad_fn), names(z.grad_fn), x.grad, w.grad

    assert_same(look)


def test_asking_twice_gives_the_same_node(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = x * 2
    z = y.sin()
    assert z.grad_fn is z.grad_fn
    assert z.grad_fn.next_functions[0][0] is y.grad_fn
    w = y.cos()
    assert w.grad_fn.next_functions[0][0] is y.grad_fn
    assert torch.autograd.graph.get_gradient_edge(y).node is y.grad_fn


def test_threads_ask_for_the_same_node(device):
    x = torch.ones(2, device=device, requires_grad=True)
    for _ in range(20):
        y = x
        for _ in range(50):
            y = y * 2
        seen, barrier = [], threading.Barrier(4)

        def ask(y=y, seen=seen, barrier=barrier):
            barrier.wait()
            seen.append(y.grad_fn)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len({id(node) for node in seen}) == 1


def test_properties():
    def look(device):
        x = normal(3, device=device, grad=True)
        a, b = torch.nn.functional.layer_norm(x, (3,)).sin(), x * 2
        out = [a.requires_grad, a.is_leaf, a.output_nr, a._version, a.retains_grad, b._is_view()]
        b.requires_grad_()
        return out + [b.requires_grad, b.is_leaf, b.detach().requires_grad]

    assert_same(look)


def test_hook_after_more_was_recorded():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        z = (y.sin() + y.exp()) * y
        seen = []
        y.register_hook(lambda g: seen.append(g.clone()))
        y.register_hook(lambda g: g * 3)
        del y
        z.sum().backward()
        return seen, x.grad

    assert_same(differentiate)


def test_hook_between_two_backwards():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        z = (y.sin() * y).sum()
        z.backward(retain_graph=True)
        seen = []
        y.register_hook(lambda g: seen.append(g.clone()))
        z.backward()
        return seen, x.grad

    assert_same(differentiate)


def test_retain_grad_late():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        z = y.sin() * y
        y.retain_grad()
        z.retain_grad()
        z.sum().backward()
        return y.grad, z.grad, x.grad

    assert_same(differentiate)


def test_hook_on_the_root():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = (x * 2).sum()
        y.register_hook(lambda g: g * 5)
        y.backward()
        return x.grad

    assert_same(differentiate)


def test_gradients_of_intermediates():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        w = normal(3, device=device, grad=True)
        y = x * w
        z = y.sin()
        loss = (z * y + w).sum()
        some = torch.autograd.grad(loss, [y, w], retain_graph=True)
        one = torch.autograd.grad(loss, z, retain_graph=True)
        leaf = torch.autograd.grad(loss, x, retain_graph=True)
        loss.backward(inputs=[x, y])
        return some, one, leaf, x.grad, w.grad

    assert_same(differentiate)


def test_intermediate_with_and_without_nodes_behind_it():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        first, second = y.sin(), y.cos()
        seen = [first.grad_fn.name()]
        third = y.exp()
        g = torch.autograd.grad((first + second * third).sum(), [y, x, second], retain_graph=True)
        (first * second + third).sum().backward()
        return seen, g, x.grad

    assert_same(differentiate)


def test_gradient_of_the_root_itself():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = (x * 2).sum()
        return torch.autograd.grad(y, [y, x])

    assert_same(differentiate)


def test_unused_inputs():
    def differentiate(device):
        x, u = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        v = u * 2
        y = (x * 2).sum()
        return [
            g is None for g in torch.autograd.grad(y, [x, u, v], allow_unused=True)
        ], torch.autograd.grad((x * 3).sum(), [x, u], allow_unused=True, materialize_grads=True)

    assert_same(differentiate)
    for other in (lambda u: u, lambda u: u * 2):

        def fail(device, other=other):
            x, u = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
            torch.autograd.grad((x * 2).sum(), [other(u)])

        assert_same_error(fail)


def test_several_roots():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        w = normal(3, device=device, grad=True)
        y = x * w
        a, b = y.sin(), (y * x).sum()
        torch.autograd.backward(
            [a, b, y, a], [torch.ones_like(a), None, torch.ones_like(y), a.detach()]
        )
        c, d = (x * w).sum(), Double.apply(x * 3).sum()
        asked = (x * w * w).sum()
        kind = asked.grad_fn.name()
        torch.autograd.backward([c, d, asked])
        return kind, x.grad, w.grad

    assert_same(differentiate)


def test_roots_that_are_unusual():
    def differentiate(device):
        x = normal(3, 2, device=device, grad=True)
        y = x * 2
        y.sin().t().backward(torch.ones(2, 3).to(device), retain_graph=True)
        y[1].sum().backward(torch.tensor(2.0).to(device), retain_graph=True)
        torch.autograd.backward(
            [torch.autograd.graph.get_gradient_edge((y * y).sum())], [torch.tensor(1.0).to(device)]
        )
        x.sum().backward()
        return x.grad

    assert_same(differentiate, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "ask",
    [
        lambda y, x: y.backward(),
        lambda y, x: y.sum().backward(torch.ones(2).to(x.device)),
        lambda y, x: y.detach().sum().backward(),
        lambda y, x: torch.autograd.backward([y.sum(), x.detach().sum()]),
        lambda y, x: torch.autograd.grad(y, x),
    ],
    ids=["no scalar", "shape", "no history", "one without history", "grad of no scalar"],
)
def test_errors_about_roots(ask):
    def fail(device):
        x = normal(3, device=device, grad=True)
        ask(x * 2, x)

    assert_same_error(fail)


def test_after_an_error_about_roots(device):
    x = torch.ones(3, device=device, requires_grad=True)
    y, z = (x * 2).sum(), (x * 3).sum()
    with pytest.raises(RuntimeError):
        torch.autograd.backward([y, x.detach().sum(), z])
    assert z.grad_fn.name() == "SumBackward0"
    assert z.grad_fn.next_functions[0][0].name() == "MulBackward0"
    torch.autograd.backward([y, z])
    assert x.grad.tolist() == [5, 5, 5]


def test_two_losses_over_one_trunk():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        trunk = (x * x).sin()
        first, second = (trunk * 2).sum(), trunk.exp().sum()
        first.backward(retain_graph=True)
        middle = x.grad.clone()
        second.backward()
        return middle, x.grad

    assert_same(differentiate)


@pytest.mark.parametrize("ask", [False, True])
def test_backward_twice(ask):
    def fail(device):
        x = normal(3, device=device, grad=True)
        trunk = (x * x).sin()
        first, second = (trunk * 2).sum(), trunk.exp().sum()
        first.backward()
        if ask:
            assert second.grad_fn.name() == "SumBackward0"
        second.backward()

    assert_same_error(fail, RuntimeError)


def test_backward_twice_where_nothing_was_kept():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = (x + 1).sum()
        y.backward()
        y.backward()
        assert y.grad_fn.name() == "SumBackward0"
        y.backward()
        return x.grad

    assert_same(differentiate)


def test_backward_in_threads():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = (x * x).sin().sum()
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()
        return x.grad

    assert_same(differentiate)


def test_recorded_in_threads():
    """A step may have a lower number in its thread than those of others that it goes on from."""

    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x
        for _ in range(100):
            y = y * 1.01
        out = []
        thread = threading.Thread(target=lambda: out.append((y.sin() * x).sum()))
        thread.start()
        thread.join()
        (out[0] + y.sum()).backward()
        return x.grad

    assert_same(differentiate)


def test_detach_in_place():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        y.detach_()
        state = [y.requires_grad, y.is_leaf, y.grad_fn is None]
        y.requires_grad_()
        (y * y).sum().backward()
        return state, [y.is_leaf, y.requires_grad], y.grad, x.grad is None

    assert_same(differentiate)


def test_detach_in_place_frees_the_graph(device):
    x = torch.ones(3, device=device, requires_grad=True)
    y = x * 2
    gone = weakref.ref(x)
    y.detach_()
    del x
    assert gone() is None
    assert y.tolist() == [2, 2, 2]


def test_in_place():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        z = y + 1
        y.mul_(x)
        y.add_(1)
        first = names(y.grad_fn)
        w = x * 3
        w[1:].mul_(2)
        v = x + 1
        v.copy_(w)
        (y.sum() + (z * w).sum() + v.sum()).backward()
        return first, x.grad

    assert_same(differentiate)


def test_views_of_what_has_no_node():
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        y = x * 2
        with torch.no_grad():
            v = y.view(-1)
        u = y.view(-1)
        y.add_(1)
        w = u * 3
        return v.requires_grad, names(w.grad_fn), torch.autograd.grad(w.sum(), x)

    assert_same(differentiate)


@pytest.mark.parametrize("ask", [False, True])
def test_version_errors(ask):
    def fail(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        z = (y * y).sum()
        if ask:
            assert z.grad_fn.name() == "SumBackward0"
        with torch.no_grad():
            y.add_(1)
        z.backward()

    assert_same_error(fail, RuntimeError)

    def fail_on_result(device):
        x = normal(3, device=device, grad=True)
        y = (x * 2).exp()
        z = y.sum()
        with torch.no_grad():
            y.add_(1)
        z.backward()

    assert_same_error(fail_on_result, RuntimeError)


@pytest.mark.parametrize("ask", [False, True])
def test_deep_chains(device, ask):
    x = torch.ones(2, device=device, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    if ask:
        assert y.grad_fn.name() == "AddBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    for _ in range(100_000):
        y = y * 1
    if ask:
        assert y.grad_fn.name() == "MulBackward0"
    del y


def test_wide_graphs(device):
    x = torch.ones(2, device=device, requires_grad=True)
    terms = [x * 2 for _ in range(1000)]
    total = terms[0]
    for t in terms[1:]:
        total = total + t
    total.sum().backward()
    assert x.grad.tolist() == [2000, 2000]


def test_graphs_are_freed(device):
    x = torch.ones(3, device=device, requires_grad=True)
    y = x * 2
    z = (y * y).sin()
    kept, leaf = weakref.ref(y), weakref.ref(x)
    del x, y
    assert kept() is not None
    z.sum().backward(retain_graph=True)
    assert kept() is not None
    z.sum().backward()
    assert kept() is None
    assert leaf() is not None
    del z
    assert leaf() is None


def test_a_leaf_lives_as_long_as_its_graph():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x + 1
        seen = []
        x.register_hook(lambda g: seen.append(g.clone()))
        del x
        gc.collect()
        y.sum().backward()
        return seen

    assert_same(differentiate)


def test_accumulator_is_the_same_for_all(device):
    x = torch.ones(3, device=device, requires_grad=True)
    accumulator = x.expand_as(x).grad_fn.next_functions[0][0]
    y = x * 2
    assert y.grad_fn.next_functions[0][0] is accumulator
    seen = []
    accumulator.register_prehook(lambda g: seen.append(g[0]))
    (x * 3).sum().backward()
    assert [g.tolist() for g in seen] == [[3, 3, 3]]


def test_a_leaf_that_stops_requiring_gradients():
    def differentiate(device):
        x, w = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        y = (x * w).sum()
        x.requires_grad_(False)
        y.backward()
        return x.grad is None, w.grad

    assert_same(differentiate)


def test_custom_functions_in_the_middle():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = Double.apply((x * 2).sin())
        z = Double.apply(y * x) + y
        z.sum().backward()
        return names(z.grad_fn), x.grad

    assert_same(differentiate)


def test_a_backward_inside_of_a_backward():
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                y = inner.sin()
                torch.autograd.backward(y, g)
            return inner.grad

    def differentiate(device):
        x = normal(3, device=device, grad=True)
        (Inner.apply(x * 2) * x).sum().backward()
        return x.grad

    assert_same(differentiate)


def test_second_order_after_first_order():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = (x * x).sin().sum()
        y.backward(retain_graph=True)
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x, retain_graph=True)
        (g * g).sum().backward()
        return g.detach(), h, x.grad

    assert_same(differentiate)


def test_anomaly_mode_names_the_line():
    def fail(device):
        x = normal(3, device=device, grad=True)
        with torch.autograd.detect_anomaly(check_nan=True):
            y = (x - x).sqrt() * 0
            y.sum().backward()

    with pytest.warns(UserWarning, match="test_nodes_on_demand"):
        assert_same_error(fail, RuntimeError)


def test_saved_tensor_hooks():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        packed = []
        y = x * 2
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
            z = y * y
        (z.sin() * y).sum().backward()
        return len(packed), x.grad

    assert_same(differentiate)


def test_copying_what_is_no_leaf():
    assert_same_error(lambda device: copy.deepcopy(normal(3, device=device, grad=True) * 2))


def test_gradients_with_other_layouts():
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        w = normal(4, 3, device=device, grad=True)
        c = normal(2, 3, 4, 4, device=device).to(memory_format=torch.channels_last).requires_grad_()
        y = (x.t() * w * 2).sum() + (c * 2).sin().sum()
        y.backward()
        return x.grad, w.grad, c.grad

    assert_same(differentiate)


def test_between_traces():
    def differentiate(device):
        x = normal(4, 6, device=device, grad=True)
        w = normal(6, 4, device=device, grad=True)
        y = torch.tanh(x @ w)
        y.detach().sum().item()
        z = torch.nn.functional.layer_norm(y, (4,)) @ w.t()
        z.detach().sum().item()
        z.sin().sum().backward(retain_graph=True)
        x.grad.sum().item()
        assert z.grad_fn.name() == "MmBackward0"
        z.cos().sum().backward()
        return x.grad, w.grad

    assert_same(differentiate, rtol=1e-5, atol=1e-5)
