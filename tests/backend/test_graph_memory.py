"""Graphs are freed when eager frees them, and long ones take neither stack nor quadratic time."""

import gc
import time
import weakref

import pytest
import torch
from differential import assert_same, normal

SIZE = 128
ACTIVATION = SIZE * SIZE * 4  # bytes


def live():
    gc.collect()
    torch.lazuli.synchronize()
    return torch.lazuli.memory_allocated()


def forward(x, w):
    """Eager keeps x, w, the product's tanh, and the exponential."""
    return (torch.tanh(x @ w) * 2).exp().mean()


def saved_by_eager():
    """Bytes that the graph of one loss keeps on the CPU, beside its leaves."""
    x, w = torch.ones(SIZE, SIZE), torch.ones(SIZE, SIZE, requires_grad=True)
    kept = {}

    def pack(t):
        kept[t.untyped_storage().data_ptr()] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        forward(x, w)
    leaves = {x.untyped_storage().data_ptr(), w.untyped_storage().data_ptr()}
    return sum(t.untyped_storage().nbytes() for p, t in kept.items() if p not in leaves)


@pytest.fixture(autouse=True)
def nothing_packed():
    """Parameters kept in a library's own order are memory that no graph holds."""
    with torch.lazuli.config.patch(max_packed_bytes=0):
        yield


@pytest.fixture
def leaves(device):
    torch.manual_seed(0)
    x = torch.randn(SIZE, SIZE).to(device)
    w = torch.randn(SIZE, SIZE).to(device).requires_grad_()
    forward(x, w).backward()
    w.grad = None
    return x, w


@pytest.mark.parametrize("read", [True, False])
def test_a_loop_that_drops_its_losses(leaves, read):
    x, w = leaves
    seen = []
    for _ in range(12):
        loss = forward(x, w)
        if read:
            loss.item()
        loss.backward()
        w.grad = None
        seen.append(live())
    assert max(seen[2:]) - min(seen[2:]) < ACTIVATION // 2


def test_a_loop_that_drops_losses_without_backward(leaves):
    x, w = leaves
    before = live()
    for _ in range(10):
        loss = forward(x, w)
        loss.item()
    del loss
    assert live() - before < ACTIVATION // 2


def test_a_loop_that_keeps_losses_after_backward(leaves):
    x, w = leaves
    before, losses = live(), []
    for _ in range(10):
        losses.append(forward(x, w))
        losses[-1].backward()
        w.grad = None
    assert live() - before < ACTIVATION // 2


@pytest.mark.parametrize("ask", [False, True])
def test_a_loop_that_keeps_losses_and_their_graphs(leaves, ask):
    x, w = leaves
    before, losses = live(), []
    for _ in range(10):
        losses.append(forward(x, w))
        if ask:
            assert losses[-1].grad_fn.next_functions
        losses[-1].detach().item()
    kept = (live() - before) / len(losses)
    assert ACTIVATION // 2 < kept <= saved_by_eager() + 1024
    for loss in losses:
        loss.backward()
    w.grad = None
    assert live() - before < ACTIVATION // 2
    del losses, loss
    assert live() - before < ACTIVATION // 2


def test_memory_of_what_comes_after_an_accumulated_loss(leaves):
    """The usual leak: `total += loss` keeps all graphs, `total += loss.detach()` none."""
    x, w = leaves
    before = live()
    total = torch.zeros((), device=x.device)
    for _ in range(5):
        loss = forward(x, w)
        total = total + loss.detach()
        loss.backward()
        w.grad = None
    total.item()
    assert live() - before < ACTIVATION // 2
    total = torch.zeros((), device=x.device)
    for _ in range(5):
        total = total + forward(x, w)
        total.detach().item()
    assert live() - before > 4 * ACTIVATION
    del total, loss
    assert live() - before < ACTIVATION // 2


def lives(*objects):
    refs = [weakref.ref(o) for o in objects]

    def ask():
        gc.collect()
        return [r() is not None for r in refs]

    return ask


def test_what_graphs_keep_alive():
    def look(device):
        x = normal(3, device=device, grad=True)
        a = x * 2  # saved by the product
        b = a.sin()
        c = a * b
        d = c + 1  # saved by nobody
        alive = lives(x, a, b, c, d)
        e = d.sum()
        seen = [alive()]
        del x, a, b, c, d
        seen.append(alive())
        e.backward(retain_graph=True)
        seen.append(alive())
        e.backward()
        seen.append(alive())
        del e
        return seen + [alive()]

    assert_same(look)


def test_graphs_without_backward():
    def look(device):
        x = normal(3, device=device, grad=True)
        a = x * 2
        alive = lives(x, a)
        y = (a * a).sin().sum()
        del x, a
        seen = [alive()]
        del y
        return seen + [alive()]

    assert_same(look)


def test_graphs_of_gradients():
    def look(device):
        x = normal(3, device=device, grad=True)
        y = x.sin() * x
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        alive = lives(x, y, g)
        h = g.pow(2).sum()
        del x, y, g
        seen = [alive()]
        h.backward()
        seen.append(alive()[1:])
        del h
        return seen + [alive()]

    assert_same(look)


def test_what_foreign_functions_and_hooks_hold():
    class Holder:
        pass

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, held):
            ctx.held = held
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g, None

    def look(device):
        in_context, in_hook = Holder(), Holder()
        alive = lives(in_context, in_hook)
        x = normal(3, device=device, grad=True)
        y = Keep.apply(x.sin(), in_context)
        y.register_hook(lambda g, held=in_hook: None)
        z = (y * 2).sum()
        del in_context, in_hook, y
        seen = [alive()]
        z.backward()
        seen.append(alive())
        del z
        return seen + [alive()]

    assert_same(look)


def chain(x, n):
    y = x
    for i in range(n):
        y = y * 1.0001 if i % 2 else y + 1
    return y


CHAIN = 100_000


@pytest.mark.parametrize("ask", [False, True])
def test_long_chains(device, ask):
    x = torch.ones(2, device=device, requires_grad=True)
    y = chain(x, CHAIN)
    if ask:
        assert y.grad_fn.name() == "MulBackward0"
    y.sum().backward(retain_graph=True)
    (g,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(x.grad, g)
    assert x.grad.tolist() == pytest.approx([1.0001 ** (CHAIN // 2)] * 2, rel=1e-3)
    del y, g


def test_long_chains_of_saved_values(device):
    x = torch.full((2,), 0.5, device=device, requires_grad=True)
    y = x
    for _ in range(CHAIN // 2):
        y = y.sin().exp()
        y = y - 1
    del y  # without backward
    y = x
    for _ in range(CHAIN // 4):
        y = torch.tanh(y) * 1.5
    y.sum().backward()
    assert x.grad.isfinite().all()


def test_long_chains_of_views(device):
    x = torch.ones(2, 2, device=device, requires_grad=True)
    y = x
    for _ in range(CHAIN // 2):
        y = y.t()
        y = y.view(4).view(2, 2) if y.is_contiguous() else y
    y.sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]


def test_long_chains_of_gradients(device):
    """create_graph makes a node for every step, and the same again for the gradient."""
    x = torch.full((2,), 0.5, device=device, requires_grad=True)
    y = x
    for _ in range(CHAIN // 10):
        y = y * y + 0.1
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.isfinite().all()


def test_time_grows_with_length(device):
    def seconds(n):
        x = torch.ones(2, device=device, requires_grad=True)
        start = time.perf_counter()
        y = chain(x, n)
        y.sum().backward()
        x.grad.tolist()
        del y
        return time.perf_counter() - start

    seconds(10_000)
    short = min(seconds(10_000) for _ in range(3))
    assert seconds(CHAIN) < 5 * short * (CHAIN / 10_000)
