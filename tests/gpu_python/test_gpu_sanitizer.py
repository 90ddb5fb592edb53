"""NVIDIA's compute-sanitizer over lazuli_gpu_tests: no access outside of memory, no races."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ["OnGpu.StepsOfPlans", "OnGpu.RandomNestsInGroups"]


def find_sanitizer() -> str | None:
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
    )


def find_program() -> Path:
    """lazuli_gpu_tests, beside the library under test or in the build folder."""
    named = os.environ.get("LAZULI_LIBRARY")
    preset = os.environ.get("LAZULI_PRESET", "release")
    beside = Path(named).parent if named else ROOT / "build" / preset
    return beside / "lazuli_gpu_tests"


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_sanitizer(tool, test):
    sanitizer, program = find_sanitizer(), find_program()
    if not sanitizer:
        pytest.skip("there is no compute-sanitizer")
    if not os.access(program, os.X_OK):
        pytest.skip(f"there is no {program}")
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", program]
    try:
        done = subprocess.run(
            [*command, f"--gtest_filter={test}"], capture_output=True, text=True, timeout=50
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{tool} of {test} takes more than 50 s here")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "[  PASSED  ] 1 test" in done.stdout, done.stdout[-2000:]
