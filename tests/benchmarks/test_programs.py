"""The short programs compute on lazuli what they compute on cpu, and their runs are compared."""

import itertools
import subprocess
import sys

import pytest
import torch

from benchmarks import harness
from benchmarks.programs import __main__ as programs
from benchmarks.programs import process


def losses(name: str, device: str, steps: int) -> list[float]:
    torch.manual_seed(0)
    return list(itertools.islice(process.PROGRAMS[name](device), steps))


@pytest.mark.parametrize("name", sorted(set(process.PROGRAMS) - process.DRAWN_THERE))
def test_a_program_has_eagers_losses(device, name):
    expected = losses(name, "cpu", 7)
    assert losses(name, device, 7) == pytest.approx(expected, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", sorted(process.DRAWN_THERE))
def test_a_program_that_draws_on_the_device_runs(device, name):
    found = losses(name, device, 7)
    assert torch.tensor(found).isfinite().all()


def test_a_program_runs_in_a_process_of_its_own(tmp_path):
    code = f"""
from benchmarks.programs.process import run_elsewhere
ran = run_elsewhere("kalman", "lazuli", 1, {str(tmp_path)!r})
assert 0 < ran.first < ran.whole
assert len(ran.losses) == 150
"""
    subprocess.run([sys.executable, "-c", code], cwd=harness.ROOT, check=True)
    assert any(tmp_path.iterdir())  # it kept its kernels there


def test_a_program_that_fails_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="no such program on lazuli: KeyError"):
        process.run_elsewhere("no such program", "lazuli", 1, str(tmp_path))


def test_a_row_has_gains_and_the_largest_distance(monkeypatch):
    seconds = {"eager": 6.0, "lazuli": 2.0}

    def run(name, arm, threads, caches):
        return process.Ran(0.0, seconds[arm], seconds[arm] / 4, [2.0, 1.0, seconds[arm]])

    monkeypatch.setattr(programs, "run_elsewhere", run)
    row = programs.compare("kalman", rounds=2, threads=2)
    gains = {gain: 3.0 for gain in programs.GAINS}
    assert row.items() >= (gains | {"eager ms": 6000.0, "cold ms": 2000.0}).items()
    assert row["distance"] == 4 / 6
    assert programs.geometric_means([row, row])["cold"] == pytest.approx(3.0)
    assert programs.compare("vae", rounds=1, threads=2)["distance"] is None
