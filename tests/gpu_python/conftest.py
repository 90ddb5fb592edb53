"""Tests on a GPU that backs the device, against eager CUDA on the same machine.

Elsewhere each is skipped with the reason. `tools/test_gpu` runs them side by side, so every test
ends in a minute, and none relies on the memory that others leave.
"""

import contextlib
import functools
import gc
import sys
from pathlib import Path

import pytest
import torch
from torch_lazuli.operators import ops

HERE = Path(__file__).parent
SECONDS = 55

# Samples, models and training loops that the tests of the CPU have too.
for folder in ("ops", "models"):
    sys.path.insert(0, str(HERE.parent / folder))


def pytest_collection_modifyitems(config, items):
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.gpu)
        if config.pluginmanager.hasplugin("timeout") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SECONDS))


@functools.cache
def why_not() -> str:
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    if hasattr(torch, "lazuli") and ops._backing().type != "cuda":
        return "LAZULI_BACKING keeps the CPU"
    return ""


@pytest.fixture(autouse=True)
def on_a_gpu():
    """Only where a GPU backs the device, and with float32 convolutions rather than TF32's."""
    if reason := why_not():
        pytest.skip(reason)
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False):
        yield


@pytest.fixture
def little_memory():
    """A context in which `extra` bytes can be had, beyond what is in use."""

    def forget():
        torch.lazuli.synchronize()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    @contextlib.contextmanager
    def limited(extra):
        forget()
        _, total = torch.cuda.mem_get_info()
        used = torch.cuda.memory_reserved()
        torch.cuda.set_per_process_memory_fraction((used + extra) / total)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
            with contextlib.suppress(RuntimeError):
                forget()

    return limited
