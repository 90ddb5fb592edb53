"""torch.utils.benchmark: each run of a statement is computed."""

import pytest
import torch
from torch.utils.benchmark import Timer

RUNS = 10


def computed(statement, device, **names):
    """How many traces ran; a timer runs the statement twice before it measures."""
    x = torch.randn(8, 8).to(device)
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    Timer(statement, globals={"x": x, **names}).timeit(RUNS)
    counts = torch.lazuli.metrics()
    return counts["traces_compiled"] + counts["traces_reused"]


@pytest.mark.parametrize(
    "statement",
    [
        "x @ x",
        "y = x @ x",
        "(x @ x,)",
        "x.sin_()",
        "if True:\n    y = x + 1",
        "  x @ x  # indented",
    ],
)
def test_each_run_is_computed(device, statement):
    assert computed(statement, device) >= RUNS


def test_statements_that_compute_nothing(device):
    assert computed("pass", device) == computed("", device) == 0


def test_runs_setup_and_names_are_those_of_the_statement(device):
    calls = []
    timer = Timer("note(z)", setup="z = 3", globals={"note": calls.append})
    measured = timer.timeit(RUNS)
    assert calls == [3] * (RUNS + 2)
    assert measured.number_per_run == RUNS
    assert measured.task_spec.stmt == "note(z)"


def test_errors_are_the_statements(device):
    with pytest.raises(ZeroDivisionError):
        Timer("1 / zero", globals={"zero": 0}).timeit(1)
    with pytest.raises(SyntaxError):
        Timer("1 +")


def test_other_measurements(device):
    x = torch.randn(8, 8).to(device)
    timer = Timer("x @ x", globals={"x": x})
    assert timer.blocked_autorange(min_run_time=0.01).median > 0
    assert timer.adaptive_autorange(min_run_time=0.01, max_run_time=0.1).median > 0
