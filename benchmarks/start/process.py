"""New processes as an installation has them: with Python's bytecode, which pip makes."""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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


def in_turns(arms: Sequence[str], rounds: int) -> Iterator[str]:
    """The arms, `rounds` times, in an order that is reversed in every second round."""
    for number in range(rounds):
        yield from arms if number % 2 == 0 else reversed(arms)


def lower_quartile(values: Sequence[float]) -> float:
    """What else the machine does only adds to a time."""
    return statistics.quantiles(values, n=4, method="inclusive")[0]
