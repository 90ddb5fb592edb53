"""A compilation that takes long says so, once."""

import os
import subprocess
import sys

import pytest

# Many large kernels, no two of which are alike and none of which is on the disk.
PROGRAM = """
import torch
x = torch.rand(8, 8, device="lazuli")
for turn in range(2):
    results = []
    for i in range(240):
        y = x + turn
        for bit in range(24):
            y = y.sin() if (i * 2654435761 >> bit) & 1 else y.sigmoid() * y.tanh()
        results.append(y.sum(bit % 2))
    print(sum(r.sum() for r in results).item() is not None)
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
