"""New processes as an installation has them: with Python's bytecode, which pip makes."""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from benchmarks import harness

Found = TypeVar("Found")

# Torch ends its import with the devices of other packages, unless it is told not to.
IMPORT_TORCH_ALONE = """
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch
"""


@contextmanager
def bytecode() -> Iterator[dict[str, str]]:
    """The environment of such processes. The first one makes what the others find."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment


def output_of(command: Sequence[str], environment: dict[str, str]) -> str:
    """What the command prints; `LAUNCHED` tells it when it was started, by time.time()."""
    launched = {"LAUNCHED": str(time.time())}
    done = subprocess.run(
        command, env=environment | launched, capture_output=True, text=True, check=True
    )
    return done.stdout


def by_arm(arms: Sequence[str], rounds: int, one: Callable[[str], Found]) -> dict[str, list[Found]]:
    """What `one` gives for each arm, in turns. What it gives first, before its files are in memory,
    does not count."""
    for arm in arms:
        one(arm)
    found: dict[str, list[Found]] = {arm: [] for arm in arms}
    for arm in harness.in_turns(arms, rounds):
        found[arm].append(one(arm))
    return found


def lower_quartile(values: Sequence[float]) -> float:
    """What else the machine does only adds to a time."""
    return statistics.quantiles(values, n=4, method="inclusive")[0]
