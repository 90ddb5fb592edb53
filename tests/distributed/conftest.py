"""Two processes that make up a group, for all tests of the folder."""

import pytest
import torch
from pair import Pair


@pytest.fixture(scope="session")
def processes():
    """Starts the processes when they are first used, and again after a test that lost them."""
    pair = Pair()
    yield pair
    pair.end()


@pytest.fixture
def assert_same(processes, device):
    """`assert_same(f)`: `f(rank, device)` gives the same on both devices, in each process."""
    return processes.assert_same


@pytest.fixture
def run(processes, device):
    """`run(f, ...)`: what `f(rank, ...)` returns in each process."""
    return processes.run


@pytest.fixture
def run_both(run):
    """`run_both(f, ...)`: `f(rank, device, ...)` gives the same numbers on both devices."""

    def compare_both(function, *arguments, **tolerance):
        expected, actual = (run(function, device, *arguments) for device in ("cpu", "lazuli"))
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, e, **tolerance)

    return compare_both
