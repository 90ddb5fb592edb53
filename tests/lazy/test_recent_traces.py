"""A trace that comes again soon in planned parts runs as it did: nothing is cut or looked up."""

import pytest
import torch

DEVICE = "lazuli"


@pytest.fixture(autouse=True)
def in_parts():
    with torch.lazuli.config.patch(unplanned="never", run_ahead="off", plan_after=8):
        yield


def runs_of(step, *arguments):
    """The step's result, and of its traces how many were cut into parts and how many known."""
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    result = step(*arguments).cpu()
    counted = torch.lazuli.metrics()
    return result, (counted["traces_in_parts"], counted["traces_reused"])


def make_step(seed):
    w = torch.randn(11, 11, generator=torch.Generator().manual_seed(seed))

    def step(x):
        on = w.to(x.device)
        for _ in range(3):
            x = torch.tanh(x @ on) + 0.5
        return x.softmax(-1)

    return step


def test_it_is_cut_twice_then_reused():
    step, x = make_step(1), torch.randn(5, 11)
    known = []
    for i in range(4):
        result, runs = runs_of(step, (x * i).to(DEVICE))
        known.append(runs)
        torch.testing.assert_close(result, step(x * i))
    assert known[0][1] == 0
    assert known[1] == (1, 0)
    assert known[2] == known[3] == (0, 1)


def test_among_traces_of_other_sizes():
    step = make_step(2)
    for rows in (3, 3, 4, 4, 3, 4, 3, 5, 4):
        x = torch.randn(rows, 11)
        torch.testing.assert_close(runs_of(step, x.to(DEVICE))[0], step(x))


def test_what_is_needed_afterwards_is_not_written_over():
    """The first times nobody else has the input, and results may lie there; then somebody has."""

    def step(x):
        return (x + 1) @ (x * 2).t() + x.sum()

    for kept in (False, False, False, True, True, False):
        x = torch.randn(6, 6)
        on = x.to(DEVICE) * 1
        torch.lazuli.synchronize()
        others = on.view(36) if kept else None
        got = step(on)
        del on
        torch.testing.assert_close(got.cpu(), step(x))
        if kept:
            assert torch.equal(others.cpu(), x.view(36))


def test_under_another_setting_it_is_another_trace():
    step, x = make_step(3), torch.randn(5, 11)
    for _ in range(3):
        runs_of(step, x.to(DEVICE))
    with torch.lazuli.config.patch(fusion=False):
        result, runs = runs_of(step, x.to(DEVICE))
    assert runs[1] == 0
    torch.testing.assert_close(result, step(x))
