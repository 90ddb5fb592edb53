"""The command that renews all stored results."""

import argparse
import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import revision
from benchmarks.all import __main__ as everything
from benchmarks.all.stored import STORED

BEGAN = {"commit": "c" * 40, "clean": True, "library": "built from this tree"}


def test_it_renews_every_file_that_is_stored():
    kept = {file.stem for file in revision.RESULTS.glob("*.json")}
    assert kept <= {name for results in STORED.values() for name in results}


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """Measures `models-cpu` by a stand-in; returns why it was not stored, and what is stored."""
    results = tmp_path / "results"
    results.mkdir()
    (results / "models-cpu.json").write_text("old")
    monkeypatch.setattr(revision, "RESULTS", results)

    def run(seen: dict, status: int = 0):
        def measured(command, **options):
            Path(command[command.index("--json") + 1]).write_text(json.dumps({"revision": seen}))
            return argparse.Namespace(returncode=status)

        monkeypatch.setattr(subprocess, "run", measured)
        arguments = argparse.Namespace(device="cpu", folder=str(results), rounds=None)
        why = everything.renew("models-cpu", arguments, BEGAN)
        return why, (results / "models-cpu.json").read_text()

    return run


def test_a_whole_result_takes_the_old_ones_place(measure):
    why, stored = measure(BEGAN)
    assert why is None
    assert json.loads(stored)["revision"] == BEGAN


@pytest.mark.parametrize("change", [{"clean": False}, {"commit": "d" * 40}])
def test_a_result_of_another_tree_does_not(measure, change):
    assert measure(BEGAN | change) == ("the tree changed meanwhile", "old")


def test_a_run_that_fails_leaves_the_old_one(measure):
    assert measure(BEGAN, status=3) == ("exit status 3", "old")


def test_commands_name_the_device_and_the_file():
    run = everything.command("models-cpu-usual", "cpu", Path("x.json"), rounds=1)
    assert run[1:5] == ["-m", "benchmarks.models", "--group", "usual"]
    assert run[-6:] == ["--rounds", "1", "--device", "cpu", "--json", "x.json"]
