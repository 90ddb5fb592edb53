"""The examples that leave the choice of the device to a library: on lazuli as on the CPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(script, device, *arguments):
    """The numbers that it prints, line by line, and where it says that it ran."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLES / script), *arguments],
        env=os.environ | {"ACCELERATE_TORCH_DEVICE": device, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if re.match(r"epoch|step|sampled", line)]
    assert lines
    where = re.search(r"trained on (\w+)", done.stdout).group(1)
    return [[float(x) for x in re.findall(r"-?\d+\.\d+", line)] for line in lines], where


@pytest.mark.parametrize(
    ("script", "arguments", "needs"),
    [
        ("lightning_digits.py", ["2"], ["lightning", "sklearn"]),
        ("diffusion_digits.py", ["20"], ["accelerate", "diffusers", "sklearn"]),
    ],
)
def test_example(script, arguments, needs):
    for package in needs:
        pytest.importorskip(package)
    assert "lazuli" not in (EXAMPLES / script).read_text()
    expected, there = run(script, "cpu", *arguments)
    actual, here = run(script, "lazuli", *arguments)
    assert (there, here) == ("cpu", "lazuli")
    assert len(actual) == len(expected)
    for ours, eagers in zip(actual, expected, strict=True):
        assert ours == pytest.approx(eagers, rel=3e-2, abs=1e-2)
