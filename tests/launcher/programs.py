"""Runs programs with and without the launcher, and reads what they print."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
_NUMBER = re.compile(r"-?\d+\.\d+")


def environment(**more: str) -> dict[str, str]:
    """The tests' own, in which nothing is taken over."""
    names = ("LAZULI_TAKE_OVER", "LAZULI_MOVE_HOST_OPERANDS", "LAZULI_UNPLANNED")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return kept | {"LAZULI_HOME": str(ROOT), "OMP_NUM_THREADS": "1"} | more


def run(*command: str | Path, launched: bool = True, cwd: Path | None = None, **more: str):
    """The finished process of `python [-m torch_lazuli] command`."""
    launcher = ("-m", "torch_lazuli") if launched else ()
    return subprocess.run(
        [sys.executable, *launcher, *map(str, command)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(**more),
        timeout=250,
    )


def output(*command: str | Path, **options) -> str:
    """What it prints; it must succeed."""
    done = run(*command, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def launched_output(*command: str | Path, metrics: Path, **options) -> tuple[str, dict]:
    """What it prints under the launcher, and the device's counters at its end."""
    text = output(*command, LAZULI_METRICS=str(metrics), **options)
    return text, json.loads(metrics.read_text())


def numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text)]


def words(text: str) -> str:
    return _NUMBER.sub("#", text)
