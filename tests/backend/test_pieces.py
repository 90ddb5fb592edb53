"""Gradients of pieces of one tensor: put together where they lie apart, added where they do not."""

import pytest
import torch
from torch import nn

READS = {
    "all rows": lambda x: [x[i] for i in range(6)],
    "rows in another order": lambda x: [x[i] for i in (3, 0, 5, 1)],
    "some rows": lambda x: [x[1], x[4]],
    "one row": lambda x: [x[2]],
    "columns": lambda x: [x[:, i] for i in range(8)],
    "ranges": lambda x: [x[0:2], x[2:3], x[4:6]],
    "the last dimension": lambda x: [x[..., 0:3], x[..., 3:8]],
    "ranges that overlap": lambda x: [x[0:3], x[2:5], x[4:6]],
    "a row twice": lambda x: [x[1], x[3], x[1]],
    "rows and columns": lambda x: [x[0], x[1], x[:, 2], x[:, 5]],
    "rows, then all": lambda x: [x[0], x[1], x, x[2]],
    "all, then rows": lambda x: [x, x[0], x[5]],
    "every second row": lambda x: [x[0::2], x[1::2]],
    "a range of steps and a row": lambda x: [x[0:4:2], x[5], x[1]],
    "pieces of pieces": lambda x: [x[0:3][1], x[0:3][2], x[3:6][0][2:5]],
    "split": lambda x: list(x.split([1, 2, 3])),
    "none of nothing": lambda x: [x[0:0], x[0:2], x[2:2], x[2:6]],
}


def inner(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).tanh()


# What is read: a leaf, a step, and what torch's own node made.
MAKERS = {
    "leaf": lambda x: x,
    "step": inner,
    "node of torch": lambda x: torch.special.i1(x),
    "step before a node of torch": lambda x: inner(torch.special.i1(x)),
}


def loss_of(reads, maker, x: torch.Tensor) -> torch.Tensor:
    total = x.new_zeros(())
    for n, piece in enumerate(reads(maker(x))):
        total = total + (piece * (n + 1)).sin().sum()
    return total


def on_both(compute):
    """What `compute(x)` gives on the host and on the device."""
    values = torch.randn(6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return [compute(values.to(d).detach().requires_grad_()) for d in ("cpu", "lazuli")]


def assert_same(got, want):
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.cpu(), w)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_gradient(reads, maker):
    def compute(x):
        loss_of(reads, maker, x).backward()
        return [x.grad]

    assert_same(*reversed(on_both(compute)))


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_gradient_when_each_step_has_a_node(reads, maker):
    def compute(x):
        loss = loss_of(reads, maker, x)
        loss.grad_fn.next_functions  # noqa: B018
        loss.backward(retain_graph=True)
        loss.backward()
        return [x.grad]

    assert_same(*reversed(on_both(compute)))


@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_gradient_of_the_gradient(reads):
    def compute(x):
        (g,) = torch.autograd.grad(loss_of(reads, inner, x), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)

    assert_same(*reversed(on_both(compute)))


@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_gradients_of_what_is_between(reads):
    def compute(x):
        y = inner(x)
        total = sum((p * (n + 1)).sin().sum() for n, p in enumerate(reads(y)))
        return torch.autograd.grad(total, [y, x])

    assert_same(*reversed(on_both(compute)))


def test_only_some_pieces_lead_to_the_loss():
    def compute(x):
        y = inner(x)
        rows = [y[i] for i in range(6)]
        (rows[1] * rows[4]).sum().backward()
        return [x.grad]

    assert_same(*reversed(on_both(compute)))


def test_hooks_see_the_whole():
    def compute(x):
        seen = []
        y = inner(x)
        y.register_hook(lambda g: seen.append(g.clone()))
        sum((y[i] * i).sum() for i in range(1, 5)).backward()
        return [*seen, x.grad]

    assert_same(*reversed(on_both(compute)))


@pytest.mark.parametrize("steps", [3, 70])
def test_a_loop_over_a_sequence(steps):
    """As many turns as are recorded in several scopes, with embedded words before them."""
    torch.manual_seed(0)
    words, cell = nn.Embedding(20, 4, dtype=torch.float64), nn.Linear(8, 4, dtype=torch.float64)
    tokens = torch.randint(20, (3, steps))
    results = []
    for device in ("cpu", "lazuli"):
        words, cell = words.to(device), cell.to(device)
        for n in range(3):
            x, h = words(tokens.to(device)), torch.zeros(3, 4, dtype=torch.float64, device=device)
            for t in range(steps - n):
                h = cell(torch.cat([x[:, t], h], 1)).tanh()
            words.zero_grad(), cell.zero_grad()
            h.square().sum().backward()
        results.append([p.grad.cpu().clone() for p in (*words.parameters(), *cell.parameters())])
    assert_same(results[1], results[0])


def test_each_element_is_written_once():
    """A loop's backward has no sum of the whole sequence a turn."""
    x = torch.randn(64, 32, device="lazuli", requires_grad=True)
    y = x * 2
    loss = sum((y[i] * (i + 1)).sum() for i in range(64))
    loss.backward()
    text = torch.lazuli.dump("trace")
    assert " pad " not in text, text
    assert text.count(" cat ") == 1, text
