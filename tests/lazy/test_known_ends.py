"""A trace that takes long, and is known as a whole, ends a longer one that begins with it."""

import pytest
import torch
from torch import nn

KNOWN = "end of a known trace"


def network():
    return nn.Sequential(nn.Conv2d(8, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1))


@pytest.fixture
def step(device):
    """A network whose pass takes milliseconds, planned as a whole."""
    net, x = network().to(device).eval(), torch.randn(8, 8, 32, 32, device=device)

    @torch.no_grad()
    def step():
        return net(x)

    for _ in range(torch.lazuli.config.plan_after + 2):
        step().cpu()
    return step


def test_a_loop_that_reads_nothing_goes_on_with_the_plan(step, counters):
    expected = step().cpu()
    compiled = counters()["traces_compiled"] + counters()["traces_in_parts"]
    results = [step() for _ in range(10)]
    for result in results:
        torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)
    assert counters()["traces_compiled"] + counters()["traces_in_parts"] == compiled
    assert counters()["syncs"][KNOWN] == 9


def test_what_follows_may_be_new(step, counters):
    expected = step().cpu()
    scaled = step() * 3
    assert counters()["syncs"][KNOWN] == 1
    torch.testing.assert_close(scaled.cpu(), expected * 3)


def test_another_value_that_is_alive_makes_another_trace(step, counters, device):
    """The known trace computed nothing that only this one keeps."""
    kept = []
    net = network().to(device).eval()
    x = torch.randn(8, 8, 32, 32, device=device)

    @torch.no_grad()
    def forward(keep):
        hidden = net[1](net[0](x))
        if keep:
            kept.append(hidden)
        return net[2](hidden)

    for _ in range(torch.lazuli.config.plan_after + 2):
        forward(keep=False).cpu()
    y = forward(keep=True) + 1
    assert KNOWN not in counters()["syncs"]
    torch.testing.assert_close(y.cpu(), net[2](kept[0]).cpu() + 1)


def test_a_short_trace_ends_none(counters, device):
    x = torch.ones(64, device=device)
    for _ in range(torch.lazuli.config.plan_after + 2):
        (x + 1).mul(2).cpu()
    for _ in range(10):
        y = (x + 1).mul(2)
    assert KNOWN not in counters()["syncs"]
    assert y.cpu().eq(4).all()


def test_a_loop_of_long_turns_is_planned_soon(counters, device):
    """Turns that cost little run in parts for longer."""
    net = nn.Conv2d(64, 64, 3, padding=1).to(device)
    x = torch.randn(16, 64, 64, 64, device=device)

    @torch.no_grad()
    def turns():
        y = x
        for _ in range(6):
            y = net(y).relu()
        return y

    for _ in range(torch.lazuli.config.plan_after + 1):
        turns().cpu()
    made = counters()["traces_compiled"], counters()["traces_in_parts"]
    assert made[1] < torch.lazuli.config.plan_after
    turns().cpu()
    assert (counters()["traces_compiled"], counters()["traces_in_parts"]) == made


def test_it_is_off_where_loops_are_not_cut(step, counters):
    with torch.lazuli.config.patch(cut_at_repeat=False):
        results = [step() for _ in range(3)]
        results[-1].cpu()
    assert KNOWN not in counters()["syncs"]
