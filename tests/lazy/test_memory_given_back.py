"""What steps leave in the heap before there is a plan of them does not stay there."""

import os
import subprocess
import sys

PROGRAM = """
import ctypes
from pathlib import Path
import torch
from torch import nn

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024

torch.manual_seed(0)
model = nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(1024, 1024), nn.GELU())))
model = model.to("lazuli")
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(1024, 1024).to("lazuli")
for _ in range(10):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
torch.lazuli.synchronize()
before = resident()
ctypes.CDLL(None).malloc_trim(0)
print(before - resident())
"""


def test_the_heap_is_trimmed_when_a_plan_takes_over():
    """Torch's kernels compute the first steps: a plan needs nothing of what they leave."""
    env = os.environ | {"LAZULI_CACHE_DIR": "", "OMP_NUM_THREADS": "1"}
    env.pop("LAZULI_UNPLANNED", None)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert float(done.stdout) < 16  # MiB; parameters and gradients have 24 each
