"""Measures what the launcher costs a script: until its first result, and per step.

Two scripts run in new processes, which take turns: by the launcher, where they ask for `cuda`, and
by themselves, where they name the device. One computes a sum and ends. The import of torch does not
count: it is the same for both, and takes a hundred times what is measured. The other script trains
a small network: most of a step is the host's work, and each step moves a batch and asks for devices
as training loops do. A process counts with the median of its steps. Times are the lower quartiles
of all processes, in milliseconds.
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.start.process import IMPORT_TORCH_ALONE, by_arm, lower_quartile, output_of

FIRST = f"""
import json, os, sys, time

before = time.time() - float(os.environ["LAUNCHED"])
{IMPORT_TORCH_ALONE}
begin = time.perf_counter()
torch._import_device_backends()
total = torch.ones(100, device=torch.device(sys.argv[1])).sum().item()
assert total == 100
print(json.dumps(before + time.perf_counter() - begin))
"""
STEPS = """
import json, statistics, sys, time
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

for _ in range(30):
    step()
times = []
for _ in range(200):
    begin = time.perf_counter()
    step()
    times.append(time.perf_counter() - begin)
print(json.dumps(statistics.median(times)))
"""
ARMS = {"named": ([], "lazuli"), "launcher": (["-m", "torch_lazuli"], "cuda")}


def command(arm: str, script: str) -> list[str]:
    """What runs the script."""
    launcher, device = ARMS[arm]
    return [sys.executable, *launcher, script, device]


def measure(rounds: int, environment: dict[str, str]) -> list[dict]:
    """A row for each arm."""
    first, step = seconds(FIRST, rounds, environment), seconds(STEPS, rounds, environment)
    return [
        {
            "script": arm,
            "first result ms": first[arm] * 1e3,
            "more than named": (first[arm] - first["named"]) * 1e3,
            "step ms": step[arm] * 1e3,
            "times a named one's": step[arm] / step["named"],
        }
        for arm in ARMS
    ]


def seconds(code: str, rounds: int, environment: dict[str, str]) -> dict[str, float]:
    """What a script prints, by arm."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(code)

        def one(arm: str) -> float:
            printed = output_of(command(arm, str(script)), environment)
            return json.loads(printed.splitlines()[-1])

        found = by_arm(list(ARMS), rounds, one)
    return {arm: lower_quartile(values) for arm, values in found.items()}
