"""metrics and explain: every surprise is counted, with its Python line."""

import time

import pytest
import torch


def explanation():
    return list(torch.lazuli.explain())


def test_an_external_call_is_counted_by_op(counters, device):
    x = torch.randn(4, 3).to(device)
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    torch.cdist(x, x).cpu()
    calls = counters()["external_calls"]
    assert any("cdist" in name for name in calls), calls


def test_an_external_call_is_explained_with_its_line(device):
    x = torch.randn(4, 3).to(device)
    explanation()
    torch.cdist(x, x).cpu()
    events = [e for e in explanation() if e.kind == "external" and "cdist" in e.what]
    assert events
    assert "test_explaining.py" in events[0].where


def test_external_calls_are_explained_by_line(device):
    """Recorded ones and those that data forces, each with its own line, count and time."""
    x = torch.randn(4, 3).to(device)
    torch.lazuli.synchronize()
    explanation()
    total = 0
    for i in range(3):
        total = total + torch.cdist(x + i, x)
    total = total + torch.cdist(x + 5, x)
    torch.unique(x)
    total.cpu()
    events = [e for e in explanation() if e.kind == "external"]
    code = test_external_calls_are_explained_by_line.__code__
    begin = code.co_firstlineno + 7
    expected = {("cdist", begin, 3), ("cdist", begin + 1, 1), ("unique", begin + 2, 1)}
    found = set()
    for e in events:
        file, _, line = e.where.rpartition(":")
        assert file.endswith("test_explaining.py")
        assert e.time_us > 0
        found.add((next(n for n in ("cdist", "unique") if n in e.what), int(line), e.count))
    assert found == expected


def test_a_sync_that_data_forces(counters, device):
    x = torch.tensor([1.0, 0.0, 2.0]).to(device)
    explanation()
    assert (x + 0).nonzero().shape == (2, 1)
    events = [e for e in explanation() if e.kind == "sync"]
    assert events
    assert "test_explaining.py" in events[0].where
    assert sum(counters()["syncs"].values()) >= 1


def test_reasons_of_syncs(counters, device):
    (torch.ones(2, device=device) + 1).sum().item()
    first = counters()["syncs"]
    assert len(first) == 1
    (torch.ones(2, device=device) + 2).cpu()
    assert len(counters()["syncs"]) == 2
    kept = torch.ones(2, device=device) + 3
    torch.lazuli.synchronize()
    assert len(counters()["syncs"]) == 3
    assert kept.sum().item() == 8


def test_a_read_that_a_derivative_makes_names_it(device):
    """The line that calls backward reads nothing itself."""
    if not torch.lazuli.config.light_autograd:
        pytest.skip("torch's engine names its nodes too, but by another way")
    x = torch.ones(3, 4, dtype=torch.complex64).to(device).requires_grad_()
    y = x.cumprod(0).abs().sum()
    explanation()
    y.backward()
    x.grad.cpu()
    syncs = {e.what for e in explanation() if e.kind == "sync"}
    assert any(what.endswith(" in CumprodBackward0") for what in syncs), syncs
    assert any(" in " not in what for what in syncs), syncs


def test_the_end_of_a_step_is_a_sync(counters, device):
    net = torch.nn.Linear(2, 2).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(1, 2, device=device)).sum().backward()
    torch.lazuli.reset_metrics()
    optimizer.step()
    assert sum(counters()["syncs"].values()) == 1


def test_compilations_are_explained(device):
    explanation()
    x = torch.ones(3, 5, 7).to(device)
    (x.sinh().cosh() * 0.123).sum(1).cpu()
    assert any("compile" in e.kind for e in explanation())


def test_compilations_are_explained_by_line(planned, device):
    """Where each trace is another one there is still one line to read."""
    torch.lazuli.synchronize()
    explanation()
    for size in range(2, 7):
        x = torch.ones(size, 3).to(device)
        for _ in range(size):
            x = (x * 0.456).sinh()
        x.cpu()
    (event,) = [e for e in explanation() if e.kind == "compile"]
    assert event.count == 5
    assert event.what == "traces of 7 to 19 ops, in 5 parts, 5 of them new"


def test_a_new_plan_for_known_ops_is_explained(device):
    """By the first op of the part, the condition that does not hold, and the line."""
    torch.lazuli.synchronize()
    explanation()
    w = torch.randn(8, 16).to(device)
    for size in (30, 50, 70, 1):
        x = torch.randn(size, 8).to(device)
        (x @ w).softmax(-1).cpu()
    (event,) = [e for e in explanation() if e.kind == "new plan"]
    assert event.what.startswith("matmul: needs ")
    assert event.what.endswith(", not s0 = 1")
    assert event.where.startswith(__file__)


def test_metrics_have_the_promised_names(counters):
    names = """ops_recorded autograd_nodes derivatives_repeated traces_compiled traces_reused
    kernels_compiled kernels_reused external_calls syncs bytes_live bytes_peak"""
    assert set(names.split()) <= set(counters())


def test_host_seconds_say_where_time_goes():
    def train(steps):
        w = torch.randn(8, 8).to("lazuli").requires_grad_()
        for _ in range(steps):
            (torch.ones(4, 8, device="lazuli") @ w).tanh().sum().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
            w.sum().item()

    train(3)
    torch.lazuli.reset_metrics()
    begin = time.perf_counter()
    with torch.lazuli.config.patch(time_host=True):
        train(20)
    elapsed = time.perf_counter() - begin
    kept = torch.lazuli.metrics()["host_seconds"]
    assert all(
        kept[account] > 0 for account in ("recording", "autograd", "ending traces", "running")
    )
    # No moment is on two accounts; on a GPU another thread runs traces.
    assert sum(kept[account] for account in kept if account != "running") <= 1.05 * elapsed
    train(3)
    # How long a tick is, is known the better the longer it is measured.
    assert torch.lazuli.metrics()["host_seconds"] == pytest.approx(kept, rel=1e-3)
