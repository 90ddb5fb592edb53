"""Batches that are windows of one tensor: where they lie in it is not part of the trace."""

import pytest
import torch
from torch import nn

N, BATCH = 240, 10


def train(device, batch_of, epochs=2, width=24):
    """The losses of a small classifier, whose batches are windows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 4)).double().to(device)
    x = torch.randn(N, width, dtype=torch.float64).to(device)
    y = torch.randint(0, 4, (N,)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for begin in [*range(0, N, BATCH)] * epochs:
        inputs, target = batch_of(x, y, begin)
        loss = nn.functional.cross_entropy(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


BATCHES = {
    "rows": lambda x, y, i: (x[i : i + BATCH], y[i : i + BATCH]),
    "a matrix of a stack": lambda x, y, i: (
        x.view(-1, BATCH, x.shape[1])[i // BATCH],
        y.view(-1, BATCH)[i // BATCH],
    ),
    "columns": lambda x, y, i: (
        x.t().contiguous().t()[i : i + BATCH],
        y[i : i + BATCH],
    ),
    "every third row": lambda x, y, i: (
        x.repeat(3, 1)[i : i + 3 * BATCH : 3],
        y.repeat(3)[i : i + 3 * BATCH : 3],
    ),
    "rows that overlap": lambda x, y, i: (
        x.view(-1).unfold(0, x.shape[1], 5)[i // 2 : i // 2 + BATCH],
        y[i : i + BATCH],
    ),
    "several, stacked": lambda x, y, i: (
        torch.stack([x[(7 * i + 13 * k) % N] for k in range(BATCH)]),
        torch.stack([y[(7 * i + 13 * k) % N] for k in range(BATCH)]),
    ),
    "with external calls": lambda x, y, i: (
        torch.sort(x[i : i + BATCH], 1).values,
        y[i : i + BATCH],
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_training_is_that_of_eager(name):
    expected, actual = (train(device, BATCHES[name]) for device in ("cpu", "lazuli"))
    torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected))


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("rows", 31),
        ("a matrix of a stack", 32),
        ("rows that overlap", 33),
        ("several, stacked", 34),
        ("with external calls", 35),
    ],
)
def test_a_window_elsewhere_is_no_new_trace(name, width, counters):
    """The widths are of no other test, whose traces would be known."""
    train("lazuli", BATCHES[name], epochs=1, width=width)
    assert counters()["traces_compiled"] <= 3


def test_windows_of_what_is_written():
    """What was read before a write is what lay there before it."""

    def run(device):
        torch.manual_seed(0)
        x = torch.randn(64, 8).to(device)
        seen = []
        for i in range(40):
            k = 5 * i % 56
            before = x[k : k + 8] * 2
            if i % 7 == 3:
                x[k : k + 4] -= 1
            if i % 11 == 5:
                x.mul_(0.5)
            seen.append((before + x[k : k + 8]).sum().item())
            if i % 13 == 0:
                x = x.clone()
        return torch.tensor([*seen, *x.flatten().tolist()])

    torch.testing.assert_close(run("lazuli"), run("cpu"))


def test_a_window_outlives_its_tensor():
    x = torch.arange(640.0).to("lazuli")
    for i in range(4):
        assert (x[i : i + 64] + 0).sum().item() == sum(range(i, i + 64))
    expected = x.cpu()[100:164] * 3
    y = x[100:164] * 3
    del x
    torch.testing.assert_close(y.cpu(), expected)


def test_gradients_of_windows():
    def run(device):
        torch.manual_seed(0)
        x = torch.randn(100, 6).to(device).requires_grad_()
        sums = []
        for i in range(10):
            window = x[7 * i : 7 * i + 9]
            (window.sin() * window).sum().backward()
            sums.append(x.grad.sum().item())
        return torch.tensor([*sums, *x.grad.flatten().tolist()])

    torch.testing.assert_close(run("lazuli"), run("cpu"))


@pytest.mark.usefixtures("planned_at_once")
def test_a_parameter_that_is_trained_is_updated_where_it_lies(counters):
    """Its windows are at the same places in each step."""
    attention = nn.MultiheadAttention(8, 2, batch_first=True).to("lazuli")
    optimizer = torch.optim.SGD(attention.parameters(), 1e-2)
    x = torch.randn(2, 5, 8).to("lazuli")

    def step():
        attention(x, x + 1, x)[0].square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(4):
        step()
    before = counters()["traces_compiled"]
    for _ in range(4):
        step()
    assert counters()["traces_compiled"] == before
