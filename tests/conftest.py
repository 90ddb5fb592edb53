"""What all Python tests share."""

import os
from pathlib import Path

# Each process compiles its kernels, whatever ran before: the cache on disk has tests of its own.
os.environ.setdefault("LAZULI_CACHE_DIR", "")
# Most tests compute something once, and it is our kernels that they test: without this it would be
# torch's (lazy/test_unplanned.py).
os.environ.setdefault("LAZULI_UNPLANNED", "never")

# Nor do most tests run a kernel so often that it would be compiled (lazy/test_bytecode.py).
os.environ.setdefault("LAZULI_BYTECODE", "never")

import pytest
import torch

KNOWN_DEFECTS = Path(__file__).with_name("known_defects.txt")


def pytest_collection_modifyitems(items):
    """Defects that are known stand in one list, and a test named there must fail."""
    lines = [line for line in KNOWN_DEFECTS.read_text().splitlines() if not line.startswith("#")]
    reasons = dict(line.rsplit(" | ", 1) for line in lines)
    for item in items:
        if item.nodeid in reasons:
            item.add_marker(pytest.mark.xfail(reason=reasons[item.nodeid], strict=True))


def has_lazuli() -> bool:
    return hasattr(torch, "lazuli")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tests run in two processes on two cores: threads of one would only disturb the other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_seed():
    """Every test sees the same random numbers, however it was selected."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def device() -> str:
    """The device under test. A plugin that does not load fails the tests: it is not a skip."""
    assert has_lazuli(), "device lazuli is not there: run tools/setup"
    return "lazuli"


@pytest.fixture
def planned(device):
    """Parts have plans when they first run, whatever LAZULI_UNPLANNED asks of the other tests."""
    with torch.lazuli.config.patch(unplanned="never"):
        yield


@pytest.fixture(params=["never", "always"])
def with_and_without_plans(request, device):
    """The same numbers are asked of plans and of torch's kernels, op by op."""
    with torch.lazuli.config.patch(unplanned=request.param):
        yield


@pytest.fixture
def counters(device):
    """The device's counters, from zero: call it for what happened since the test began."""
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    return torch.lazuli.metrics


@pytest.fixture
def planned_at_once(device):
    """Traces are planned whole when they come first: for tests of plans."""
    with torch.lazuli.config.patch(tiers="plans"):
        yield
