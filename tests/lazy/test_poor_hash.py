"""What meets under one hash is told apart: hashes of few bits give what eager gives.

The rest of this file is run by itself with LAZULI_HASH_BITS, which is read once.
"""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("part", "bits"),
    [
        ("derivatives", 0),
        ("saved", 0),
        ("training", 0),
        ("training", 4),
        ("loops", 0),
        ("settings", 0),
        ("programs", 4),
    ],
)
def test_poor_hash(part, bits):
    run = subprocess.run(
        [sys.executable, __file__, part],
        env={
            **{name: value for name, value in os.environ.items() if name != "LAZULI_EMIT_PTX"},
            "LAZULI_HASH_BITS": str(bits),
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout


def gradient(function, device, shape=(4, 6)):
    torch.manual_seed(0)
    x = (torch.rand(shape) + 0.5).to(device).requires_grad_()
    y = function(x)
    (y * torch.linspace(1, 2, y.numel()).view(y.shape).to(device)).sum().backward()
    return x.grad.cpu()


def compare(function, shape=(4, 6), times=3):
    for _ in range(times):
        torch.testing.assert_close(
            gradient(function, "lazuli", shape),
            gradient(function, "cpu", shape),
            rtol=1e-3,
            atol=1e-4,
        )


def derivatives():
    """Backward of one structure over other ops, again and again."""
    ops = torch.sin, torch.cos, torch.exp, torch.log, torch.sqrt, torch.tanh, torch.neg
    for first, second in itertools.product(ops[:4], ops):
        compare(lambda x, f=first, g=second: g(f(x).abs() + 1))
    for first, second in itertools.product((torch.add, torch.mul, torch.sub, torch.div), repeat=2):
        compare(lambda x, f=first, g=second: g(f(x, x.flip(0)), 1 + x))


def saved():
    """Ops of several entries, whose derivatives read one thing or another."""
    functions = (
        lambda x: x.softmax(0),
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(-1),
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: x.var(0),
        lambda x: x.std(-1),
        lambda x: x.prod(0),
        lambda x: x.amax(-1),
        lambda x: x.cumsum(0),
        lambda x: x.logsumexp(0),
        lambda x: F.gelu(x),
        lambda x: F.cross_entropy(x, torch.arange(x.shape[0], device=x.device) % x.shape[1]),
        lambda x: F.cross_entropy(x, x.detach().softmax(-1)),
        lambda x: F.pad(x, (1, 1)),
        lambda x: torch.cat([x, x.sin()], 1),
        lambda x: x.index_select(0, torch.tensor([1, 0], device=x.device)),
        lambda x: torch.where(x > 1, x, x * 2),
        lambda x: x @ x.t(),
    )
    for shape in ((4, 6), (3, 5), (2, 16), (7, 2)):
        for function in functions:
            compare(function, shape, times=2)


def models():
    yield lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    yield lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 4))
    yield lambda: nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    yield lambda: nn.Sequential(
        nn.Unflatten(1, (2, 4)), nn.Conv1d(2, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(8, 4)
    )


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
}

SETTINGS = (
    {},
    {"fusion": False},
    {"disable_passes": "simplify"},
    {"disable_passes": "hoist_views,simplify"},
    {"max_packed_bytes": 0},
    {"fusion": False, "max_packed_bytes": 0},
)


def train(device):
    """Several models in turns, with batches of other sizes, under settings that change."""
    torch.manual_seed(0)
    runs = []
    for make, optimizer in itertools.product(models(), OPTIMIZERS.values()):
        model = make().to(device)
        runs.append((model, optimizer(model.parameters())))
    losses = []
    for step, settings in enumerate(SETTINGS + SETTINGS[::-1] + SETTINGS):
        with torch.lazuli.config.patch(**settings):
            for model, optimizer in runs:
                size = (5, 8, 5, 11)[step % 4]
                x, y = torch.randn(size, 8).to(device), torch.randint(0, 4, (size,)).to(device)
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    return torch.tensor(losses)


def training():
    torch.testing.assert_close(train("lazuli"), train("cpu"), rtol=1e-3, atol=1e-4)


def loops():
    """Without a read: looked through for repetition, and cut."""

    def loop(device, ops):
        torch.manual_seed(0)
        x, w = torch.rand(16).to(device), torch.rand(16).to(device)
        for i in range(1500):
            x = ops[i % len(ops)](x, w)
        return x.cpu()

    each = (
        lambda x, w: x * 0.5 + w,
        lambda x, w: torch.where(x > w, x, w).sin(),
        lambda x, w: (x - w).softmax(0),
        lambda x, w: torch.cat([x[8:], w[:8]]).cos(),
    )
    for n in range(1, len(each) + 1):
        torch.testing.assert_close(loop("lazuli", each[:n]), loop("cpu", each[:n]))


def settings():
    """What was compiled under one setting is not run under another."""
    x = torch.rand(8)
    compiled = []
    for chosen in SETTINGS * 2:
        with torch.lazuli.config.patch(tiers="plans", **chosen):
            torch.lazuli.reset_metrics()
            y = ((x.to("lazuli") * 2).sin() + 1).cos().cpu()
            torch.testing.assert_close(y, ((x * 2).sin() + 1).cos())
            compiled.append(torch.lazuli.metrics()["traces_compiled"])
    assert compiled == [1] * len(SETTINGS) + [0] * len(SETTINGS)


def programs():
    from fuzz import sample

    sample.run_part(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {f.__name__: f for f in (derivatives, saved, training, loops, settings, programs)}[
        sys.argv[1]
    ]()
