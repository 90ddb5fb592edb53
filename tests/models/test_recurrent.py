"""Recurrent networks, torch's own and loops over cells: one step of training as on cpu."""

import pytest
import torch
from torch import nn

BATCH, LENGTH, WIDTH = 4, 12, 24


class Loop(nn.Module):
    """A cell called step by step; what it gives at some steps is read in between."""

    def __init__(self, cell, layers=1):
        super().__init__()
        self.cells = nn.ModuleList(cell(WIDTH, WIDTH) for _ in range(layers))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        states = [None] * len(self.cells)
        seen = []
        for step in x.unbind(1):
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(step, states[layer])
                step = states[layer][0] if isinstance(states[layer], tuple) else states[layer]
            seen.append(self.head(step))
        return torch.stack(seen, 1)


class Attending(nn.Module):
    """Each step's input depends on the state before: its products cannot be taken at once."""

    def __init__(self):
        super().__init__()
        self.cell, self.key = nn.GRUCell(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        state = x.new_zeros(len(x), WIDTH)
        for _ in range(LENGTH):
            weights = (self.key(state)[:, None] * x).sum(-1).softmax(1)
            state = self.cell((weights[..., None] * x).sum(1), state)
        return state


class First(nn.Module):
    """Of a module that returns a tuple, the first."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]


NETWORKS = {
    "RNN": lambda: First(nn.RNN(WIDTH, WIDTH, 2, batch_first=True)),
    "GRU": lambda: First(nn.GRU(WIDTH, WIDTH, bidirectional=True, batch_first=True)),
    "LSTM": lambda: First(nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)),
    "projected LSTM": lambda: First(nn.LSTM(WIDTH, WIDTH, proj_size=8, batch_first=True)),
    "RNNCell": lambda: Loop(nn.RNNCell),
    "GRUCell": lambda: Loop(nn.GRUCell, layers=2),
    "LSTMCell": lambda: Loop(nn.LSTMCell),
    "attending": Attending,
}


def train(name, device, frozen=False):
    """The output, the input's gradient, and all weights' after two backward passes."""
    torch.manual_seed(0)
    model, x = NETWORKS[name]().to(device), torch.randn(BATCH, LENGTH, WIDTH)
    x = x.to(device).requires_grad_()
    if frozen:
        next(model.parameters()).requires_grad_(False)
    for _ in range(2):  # the second adds to what the first left
        y = model(x)
        (y * torch.linspace(-1, 1, y.numel(), device=device).view_as(y)).sum().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"y": y.detach(), "x": x.grad, **gradients}


def assert_equal(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        scale = value.abs().max().item()
        torch.testing.assert_close(
            actual[name].cpu(),
            value.cpu(),
            rtol=1e-4,
            atol=1e-5 * scale,
            msg=lambda t, name=name: f"{name}: {t}",
        )


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_follows_cpu(name, frozen, device):
    assert_equal(train(name, device, frozen), train(name, "cpu", frozen))


@pytest.mark.parametrize(
    ("dtype", "least"),
    [(torch.float64, 1e-12), (torch.bfloat16, 2**-7)],
    ids=["float64", "bfloat16"],
)
def test_other_types(dtype, least, device):
    """About as far from float64 as eager is, or by a rounding of the largest number: on average."""

    def step(where, dtype, seed):
        torch.manual_seed(seed)
        model = NETWORKS["GRUCell"]().to(where, dtype)
        x = torch.randn(BATCH, LENGTH, WIDTH).to(where, dtype)
        model(x).square().mean().backward()
        return {n: p.grad.cpu().double() for n, p in model.named_parameters()}

    def off(where, dtype):
        total = {}
        for seed in range(4):
            exact, got = step("cpu", torch.float64, seed), step(where, dtype, seed)
            for name, value in exact.items():
                error = (got[name] - value).abs().max() / value.abs().max()
                total[name] = total.get(name, 0) + error.item() / 4
        return total

    actual, eager = off(device, dtype), off("cpu", dtype)
    for name, error in actual.items():
        assert error <= max(1.5 * eager[name], least), (name, error, eager[name])


@pytest.mark.parametrize("joined", [True, False])
def test_a_step_takes_few_products(joined, device, tmp_path):
    """Of 64 steps' products only those stay alone that need the step before."""
    steps = 64
    passes = "" if joined else "sums_of_products,batch_products"
    layer = nn.GRU(WIDTH, WIDTH, batch_first=True).to(device)
    x = torch.randn(BATCH, steps, WIDTH).to(device)
    torch.lazuli.synchronize()
    with torch.lazuli.config.patch(
        debug=f"passes:{tmp_path}", disable_passes=passes, tiers="plans"
    ):
        layer(x)[0].sum().backward()
        torch.lazuli.synchronize()
    (trace,) = tmp_path.iterdir()
    products = max(trace.iterdir()).read_text().count("= matmul ")
    alone = 2 * steps  # of the state, forward and backward
    assert alone - 2 <= products <= alone + 4 if joined else products > 3 * steps


@pytest.mark.parametrize("cell", [nn.GRUCell, nn.LSTMCell])
def test_complex_numbers(cell, device):
    torch.manual_seed(0)
    layer, x = cell(4, 3).to(torch.complex64), torch.randn(2, 4).to(torch.complex64)
    with torch.no_grad():
        want = layer(x)
        got = layer.to(device)(x.to(device))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.cpu(), w)


@pytest.mark.parametrize("cell", [nn.GRUCell, nn.LSTMCell])
def test_a_state_on_the_host(cell, device):
    layer, x, h = cell(4, 3).to(device), torch.randn(2, 4).to(device), torch.zeros(2, 3)
    state = (h.to(device), h) if cell is nn.LSTMCell else h
    with pytest.raises(RuntimeError, match="same device"):
        layer(x, state)
