"""A compilation that takes long says so, once."""

import os
import subprocess
import sys

import pytest

# Results of many kernels each, none of which is on the disk, which take some seconds.
PROGRAM = """
import torch
x = torch.randn(8, 8, device="lazuli")
for turn in range(2):
    results = []
    for i in range(128):
        y = x + turn
        for bit in range(7):
            y = (y.softmax(1) if i >> bit & 1 else y.tanh()).cumsum(0)
        results.append(y)
    print(sum(r.sum() for r in results).item() != 0)
"""


@pytest.mark.parametrize(("seconds", "times"), [("1", 1), ("0", 0)])
def test_a_long_compilation_says_so_once(seconds, times):
    settings = {
        "LAZULI_PROGRESS": seconds,
        "LAZULI_TIERS": "plans",
        "LAZULI_CACHE_DIR": "",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\nTrue\n"
    assert done.stderr.count("lazuli: compiling a trace of ") == times, done.stderr
