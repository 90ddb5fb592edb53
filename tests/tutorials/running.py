"""Runs a program without the launcher and with it, each in a folder of its own."""

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import comparing
import data
from listing import KIND, Program

ROOT = Path(__file__).resolve().parents[2]
SEEDED = Path(__file__).with_name("seeded")
TIMEOUT = 400  # seconds


@dataclasses.dataclass(frozen=True)
class Run:
    """How a program ended and what it printed."""

    status: int
    output: str
    errors: str
    seconds: float
    operations: int = 0  # recorded by the device


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a program: `verdict` is one of VERDICTS, `detail` says more."""

    verdict: str
    detail: str
    plain: Run
    launched: Run | None = None


# It runs, and the numbers agree; they differ, but no more than eager's do if each step changes the
# parameters in their last digit; it runs, and is compared by kind; its results differ; it runs
# without the launcher only; it fails without the launcher; nothing of it ran on the device.
VERDICTS = SAME, ROUNDING, ALIKE, DIFFERS, FAILS, BROKEN, UNUSED = (
    "same",
    "rounding",
    "alike",
    "differs",
    "fails",
    "broken",
    "unused",
)
GOOD = (SAME, ROUNDING, ALIKE)
MOST_DISTURBED = 4  # runs: what grows from the last digit differs from one to the next


def outcome(program: Program, sources: Path, work: Path) -> Outcome:
    """Runs it both ways and compares."""
    plain = _run(program, sources, work / "plain", launched=False)
    if plain.status != 0:
        return Outcome(BROKEN, last_line(plain.errors), plain)
    launched = _run(program, sources, work / "launched", launched=True)
    result = judged(program, plain, launched)
    if result.verdict != DIFFERS or program.compare == KIND:
        return result
    for seed in range(1, MOST_DISTURBED + 1):
        folder = work / f"disturbed-{seed}"
        disturbed = _run(program, sources, folder, launched=False, TUTORIALS_DISTURBED=str(seed))
        result = judged(program, plain, launched, disturbed)
        if result.verdict != DIFFERS:
            break
    return result


def judged(program: Program, plain: Run, launched: Run, disturbed: Run | None = None) -> Outcome:
    """What became of a program that runs without the launcher. `disturbed` is a run without it too,
    whose steps change the parameters in their last digit."""
    if launched.status != 0:
        return Outcome(FAILS, last_line(launched.errors), plain, launched)
    if launched.operations == 0:
        return Outcome(UNUSED, "no operation ran on the device", plain, launched)
    expected, actual = (comparing.lines(run.output, program.ignore) for run in (plain, launched))
    if program.compare == KIND:
        verdict = ALIKE if comparing.of_one_kind(expected, actual) else DIFFERS
        return Outcome(verdict, program.why, plain, launched)
    apart = comparing.difference(expected, actual)
    if apart <= program.tolerance:
        return Outcome(SAME, _agreement(expected, apart), plain, launched)
    if disturbed:
        eagers = comparing.difference(expected, comparing.lines(disturbed.output, program.ignore))
        if apart <= 2 * eagers and comparing.of_one_kind(expected, actual):
            return Outcome(ROUNDING, _sensitivity(apart, eagers), plain, launched)
    said = comparing.first_difference(expected, actual, program.tolerance)
    return Outcome(DIFFERS, said, plain, launched)


def _agreement(expected: list[str], apart: float) -> str:
    count = sum(len(comparing.numbers(line)) for line in expected)
    most = f", {apart:.0e} apart" if apart else ""
    return f"{len(expected)} lines, {count} numbers{most}"


def _sensitivity(apart: float, eagers: float) -> str:
    if math.isinf(apart):
        return "its decisions depend on the last digit"
    return f"{apart:.1g} apart; eager {eagers:.1g} if each step changes the last digit"


def last_line(text: str) -> str:
    """Of an error's traceback: the error."""
    said = [line for line in text.splitlines() if line and not line[0].isspace()]
    return said[-1][:300] if said else ""


def _run(program: Program, sources: Path, folder: Path, launched: bool, **variables: str) -> Run:
    shutil.rmtree(folder, ignore_errors=True)
    inside = folder / "run"  # so that a program's `../data` is its own too
    inside.mkdir(parents=True)
    for place, name in program.beside.items():
        data.put(name, inside / place)
    launcher = ["-m", "torch_lazuli", "--random", "eager", *program.options] if launched else []
    command = [sys.executable, *launcher, *program.command(sources)]
    metrics = folder / "lazuli-metrics.json"
    environment = _environment(program, sources) | variables
    if launched:
        environment["LAZULI_METRICS"] = str(metrics)
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=inside,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(program.answers, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        errors += f"\nTimeoutExpired: it ran for {TIMEOUT} s\n"
    seconds = time.perf_counter() - start
    (folder / "stdout").write_text(output)
    (folder / "stderr").write_text(errors)
    operations = json.loads(metrics.read_text())["ops_recorded"] if metrics.exists() else 0
    return Run(process.returncode, output, errors, seconds, operations)


def _environment(program: Program, sources: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAZULI_")}
    paths = [str(SEEDED), *([str(sources / program.on_path)] if program.on_path else [])]
    if before := os.environ.get("PYTHONPATH"):
        paths.append(before)
    return kept | {
        "LAZULI_HOME": str(ROOT),
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "PYTHONHASHSEED": "0",
        **program.environment,
    }
