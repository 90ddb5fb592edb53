"""A mixed workload ends with the memory of its beginning; `tools/leaks` runs it for longer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKLOAD = Path(__file__).with_name("mixed_workload.py")


@pytest.mark.parametrize("light", ["1", "0"])
def test_memory_stays(light):
    done = subprocess.run(
        [sys.executable, WORKLOAD, "600"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LAZULI_LIGHT_AUTOGRAD": light},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    readings = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["iteration"] for r in readings] == [100, 200, 300, 400, 500, 600]


def test_growth_is_seen():
    """The command that passes above fails where something is kept."""
    done = subprocess.run(
        [sys.executable, WORKLOAD, "300", "--keep", str(64 << 10)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 1
    assert "grew" in done.stdout
