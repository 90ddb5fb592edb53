"""Measures what the launcher costs a script: until its first result, and per step.

One script runs in new processes, which take turns: by the launcher, where it asks for `cuda`, and
by itself, where it names the device. It trains a small network: most of a step is the host's work,
and each step moves a batch and asks for devices as training loops do. Times are medians of all
processes, in milliseconds.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = """
import json, os, statistics, sys, time
import torch
from torch import nn

device = torch.device(sys.argv[1])
torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(),
    nn.Flatten(), nn.Linear(128, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10),
).to(device)
optimizer = torch.optim.AdamW(net.parameters())
images, labels = torch.randn(64, 1, 8, 8), torch.randint(10, (64,))

def step():
    x, y = images.to(device), labels.to(device)
    weight = torch.ones(10, device=x.device)
    loss = nn.functional.cross_entropy(net(x), y, weight=weight)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

step()
first = time.time() - float(os.environ["LAUNCHED"])
for _ in range(30):
    step()
times = []
for _ in range(200):
    begin = time.perf_counter()
    step()
    times.append(time.perf_counter() - begin)
print(json.dumps({"first": first, "step": statistics.median(times)}))
"""
ARMS = {"named": ([], "lazuli"), "launcher": (["-m", "torch_lazuli"], "cuda")}


def process(arm: str, script: Path) -> dict[str, float]:
    """Seconds until the first result of a new process, and of a step."""
    launcher, device = ARMS[arm]
    done = subprocess.run(
        [sys.executable, *launcher, str(script), device],
        env=os.environ | {"LAUNCHED": str(time.time())},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(rounds: int) -> list[dict]:
    """A row for each arm."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        found = {arm: [] for arm in ARMS}
        for number in range(rounds + 1):
            for arm in list(ARMS) if number % 2 == 0 else reversed(list(ARMS)):
                one = process(arm, script)
                if number > 0:  # then the files are in memory
                    found[arm].append(one)

    def median(arm: str, what: str) -> float:
        return statistics.median(one[what] for one in found[arm]) * 1e3

    return [
        {
            "script": arm,
            "first result ms": median(arm, "first"),
            "more than named": median(arm, "first") - median("named", "first"),
            "step ms": median(arm, "step"),
            "times a named one's": median(arm, "step") / median("named", "step"),
        }
        for arm in ARMS
    ]
