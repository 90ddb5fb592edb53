"""What the first step of a process costs, with empty caches and with those of a process before."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import harness, turns
from benchmarks.models import steps

MEASURED_STEPS = 5
INDUCTOR_CACHE = "TORCHINDUCTOR_CACHE_DIR"


def compare(
    name: str, mode: str, arguments, folder: str, failed: dict[str, str]
) -> dict[str, object]:
    """Each arm's first step in a process with empty caches and in the next, and its memory.

    Medians, where they are measured several times. The last caches are left in `folder`. An arm
    whose process fails is added to `failed` with its error.
    """
    arms = [arm for arm in arguments.arms if arm not in harness.RIVALS]
    keys = [f"{arm} {what}" for arm in arms for what in ("first s", "MB", "second s")]
    facts: dict[str, list[float]] = {key: [] for key in keys}
    for _ in range(arguments.cold_rounds):
        for arm in arms:
            caches = Path(folder, arm)
            shutil.rmtree(caches, ignore_errors=True)
            caches.mkdir()
            for process in ("first", "second"):
                if arm in failed:
                    break
                try:
                    seen = measure_elsewhere(name, mode, arm, arguments, str(caches))
                except RuntimeError as error:
                    failed[arm] = harness.in_a_line(error)
                    break
                facts[f"{arm} {process} s"].append(seen["first_step_s"])
                if process == "first":
                    facts[f"{arm} MB"].append(seen["peak_memory_mb"])
    return {key: statistics.median(values) if values else None for key, values in facts.items()}


def share_caches(folder: str, arms: list[str]) -> None:
    """Lets this process find all that torch.compile's arms left in their folders."""
    shared = Path(folder, "shared")
    for arm in harness.COMPILE_MODES:
        if arm in arms:
            shutil.copytree(Path(folder, arm), shared, dirs_exist_ok=True)
    os.environ[INDUCTOR_CACHE] = str(shared)


def measure(name: str, mode: str, arm: str, conditions: steps.Conditions) -> dict[str, float]:
    """The first step's seconds and the memory a few steps take, in this process."""
    step = steps.make_step(name, mode, arm, conditions)
    with harness.peak_memory() as memory:
        begin = time.perf_counter()
        turns.read(arm, [step()])
        first = time.perf_counter() - begin
        for _ in range(MEASURED_STEPS - 1):
            turns.read(arm, [step()])
    return {"first_step_s": first, "peak_memory_mb": memory["peak"] / 2**20}


def measure_elsewhere(name: str, mode: str, arm: str, arguments, caches: str) -> dict[str, float]:
    """`measure` in a new process, whose caches on disk are in the folder `caches`.

    Raises RuntimeError with the last line of the process's output if it fails.
    """
    command = [sys.executable, "-m", "benchmarks.models", "--cold", name, mode, arm]
    options = ["--threads", str(arguments.threads), "--device", arguments.device]
    options += steps.Conditions.of(arguments).options()
    done = subprocess.run(
        [*command, *options],
        cwd=harness.ROOT,
        env=os.environ | {"LAZULI_CACHE_DIR": caches, INDUCTOR_CACHE: caches},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(harness.what_failed(done.stderr or done.stdout, done.returncode))
    return json.loads(done.stdout.splitlines()[-1])
