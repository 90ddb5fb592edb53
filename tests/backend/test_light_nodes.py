"""Light autograd nodes and the engine that runs them, which are on by default.

What only they do, and the tests of autograd's semantics with each of them switched off. Nodes are
registered when the plugin is loaded, so those tests run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from differential import assert_same, normal

TESTS = Path(__file__).parent
FILES = (
    "test_autocast",
    "test_batched_gradients",
    "test_checkpoint",
    "test_composability",
    "test_func",
    "test_grad_accumulation",
    "test_failing_backward",
    "test_grad_scaler",
    "test_modules",
    "test_narrow_types",
    "test_nodes_on_demand",
    "test_view_steps",
    "test_optimizers",
    "test_vmap",
    "test_hooks",
    "test_double_backward",
    "test_set_data",
    "test_version_counter",
)


@pytest.mark.parametrize("setting", ["LAZULI_LIGHT_AUTOGRAD", "LAZULI_INLINE_BACKWARD"])
def test_semantics_without(setting):
    files = [str(TESTS / f"{file}.py") for file in FILES]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "--show-capture=no", *files],
        env=os.environ | {setting: "0", "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
        cwd=TESTS.parent.parent,
    )
    assert run.returncode == 0, run.stdout[-4000:]


def test_nodes_have_torchs_names(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = (x * 2).sin()
    assert y.grad_fn.name() == "SinBackward0"
    assert type(y.grad_fn).__name__ == "SinBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"


def test_one_tensor_twice():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        (x * x + torch.atan2(x, x)).sum().backward()
        return x.grad

    assert_same(differentiate)


def test_backward_after_the_trace_has_ended():
    """What the derivatives read is kept: values, windows on memory, and numbers."""

    def differentiate(device):
        x = normal(4, 6, device=device, grad=True)
        w = normal(6, 4, device=device, grad=True)
        y = torch.tanh(x.t() * w) * 3 + x[1:3, ::2].sigmoid().mean()
        y = torch.nn.functional.layer_norm(y, (4,)) @ w.t()
        y.sum().item()
        y.square().sum().backward()
        return x.grad, w.grad

    assert_same(differentiate)


@pytest.mark.parametrize("pending", [1, 2, 3, 7])
def test_the_trace_may_end_anywhere_in_backward(pending):
    """Between two gradients of one node too, of which torch's own node takes the first."""

    def differentiate(device):
        x = normal(4, 6, device=device, grad=True)
        w = normal(6, 8, device=device, grad=True)
        b = normal(8, device=device, grad=True)
        y = torch.nn.functional.gelu(x @ w + b)
        halves = y.view(4, 2, 4).unbind(1)
        z = halves[0] * halves[1].tanh() + y[:, ::2] * w[:4, :4]
        z.square().mean().backward()
        return x.grad, w.grad, b.grad

    with torch.lazuli.config.patch(max_pending_ops=pending):
        assert_same(differentiate)


def test_backward_in_parts():
    """A second loss over a graph of which a first has freed nothing yet, with a read in between."""

    def differentiate(device):
        x = normal(5, device=device, grad=True)
        y = x.sin()
        first, second = (y * y).sum(), y.exp().sum()
        first.backward(retain_graph=True)
        before = x.grad.clone()
        first.item()
        second.backward()
        return before, x.grad

    assert_same(differentiate)


def test_values_changed_through_data():
    """Memory that changes behind the version counter's back: torch's saved variables show it."""

    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = (x * 2).exp()
        z = y.sin()
        y.data.mul_(3)
        z.sum().backward()
        return x.grad

    assert_same(differentiate)


def test_threads():
    """Several threads run backward over leaves that they share."""
    import threading

    x = torch.ones(8, device="lazuli", requires_grad=True)

    def work():
        for _ in range(20):
            (x * 2).sin().sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expected = torch.full((8,), 80 * 2 * float(torch.cos(torch.tensor(2.0))))
    torch.testing.assert_close(x.grad.cpu(), expected)


def test_long_chain(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    y = x
    for _ in range(100_000):
        y = y + 1
    del y  # nor does letting go of one


def test_backward_runs_on_the_callers_thread(device):
    import threading

    seen = []
    x = torch.ones(2, device=device, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: seen.append(threading.get_ident()))
    y.sum().backward()
    assert seen == [threading.get_ident()]


def test_warnings_reach_the_caller(device):
    class Warns(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            import warnings

            warnings.warn("from backward", stacklevel=1)
            return g

    x = torch.ones(2, device=device, requires_grad=True)
    with pytest.warns(UserWarning, match="from backward"):
        Warns.apply(x * 2).sum().backward()


def test_a_training_step_makes_no_nodes(counters, device):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(8)
            self.attend, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)

        def forward(self, x):
            q, k, v = (
                t.view(2, 5, 2, 4).transpose(1, 2) for t in self.attend(self.norm(x)).split(8, 2)
            )
            weights = torch.softmax(q @ k.transpose(-2, -1), -1)
            return x + self.out((weights @ v).transpose(1, 2).reshape(2, 5, 8)).relu()

    net = torch.nn.Sequential(Block(), Block(), torch.nn.Linear(8, 3)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(
            net(torch.rand(2, 5, 8, device=device)).view(10, 3),
            torch.zeros(10, dtype=torch.long, device=device),
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
    assert counters()["autograd_nodes"] == 0
    assert loss.grad_fn.name() == "NllLossBackward0"
    assert counters()["autograd_nodes"] > 10
