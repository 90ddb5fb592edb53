"""What steps leave in the heap before there is a plan of them does not stay there."""

import os
import subprocess
import sys

PROGRAM = """
import ctypes, sys
from pathlib import Path
import torch
from torch import nn

def mib(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024

layers, width, rows, steps = map(int, sys.argv[1:])
torch.manual_seed(0)
blocks = ((nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(layers))
model = nn.Sequential(*(m for block in blocks for m in block)).to("lazuli")
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(rows, width).to("lazuli")
before = mib("VmRSS:")
Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is resident now
peaks = []
for _ in range(steps):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    torch.lazuli.synchronize()
    peaks.append(mib("VmHWM:") - before)
held = mib("VmRSS:")
ctypes.CDLL(None).malloc_trim(0)
print(held - mib("VmRSS:"), *peaks)
"""


def run(*arguments: int, **settings: str) -> tuple[float, list[float]]:
    """MiB that the heap has and does not use after these steps, and the peak up to each step."""
    env = os.environ | {"LAZULI_CACHE_DIR": "", "OMP_NUM_THREADS": "1"} | settings
    env.pop("LAZULI_UNPLANNED", None)
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    free, *peaks = map(float, done.stdout.split())
    return free, peaks


def test_the_heap_is_trimmed_when_a_plan_takes_over():
    """Torch's kernels compute the first steps: a plan needs nothing of what they leave."""
    free, _ = run(6, 1024, 1024, 10)
    assert free < 16  # parameters and gradients have 24 each


def test_steps_in_parts_find_room_for_what_they_compute():
    """The first one leaves moments among what it needed, and later ones other sizes of holes."""
    _, peaks = run(24, 256, 4096, 4, LAZULI_TIERS="parts")
    assert peaks[-1] < 1.25 * peaks[0]
