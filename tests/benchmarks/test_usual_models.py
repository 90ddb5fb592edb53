"""What the tables of models have where arms fail, and how results are compared."""

from types import SimpleNamespace

import pytest
import torch

from benchmarks import harness
from benchmarks.models import __main__ as models
from benchmarks.models import first_steps, steady, steps, zoo

ARGUMENTS = SimpleNamespace(
    arms=["eager", "compile", "lazuli"],
    float32=False,
    without_dropout=False,
    rounds=1,
    steps=2,
    cold_rounds=2,
    no_cold=True,
    cold_only=False,
)


@pytest.fixture
def one_arm_fails(monkeypatch):
    def make_step(name, mode, arm, *options):
        if arm == "compile":
            raise ValueError("no\nsuch mode")
        return lambda: torch.ones(3)

    monkeypatch.setattr(steps, "make_step", make_step)


def test_an_arm_that_fails_is_reported_and_the_others_are_measured(one_arm_fails, capsys):
    row = models.compare("bert", "infer", ARGUMENTS)
    assert row["failed"] == {"compile": "ValueError: no such mode"}
    assert row["compile ms"] is None
    assert row["compile/lazuli"] is None
    assert row["eager/lazuli"] > 0
    assert row["difference"] == 0
    models.print_results([row])
    assert "compile failed at bert infer: ValueError: no such mode" in capsys.readouterr().out


def test_a_process_that_fails_is_reported_and_not_started_again(monkeypatch, tmp_path):
    started = []

    def measure(name, mode, arm, arguments, caches):
        started.append(arm)
        if arm == "compile":
            raise RuntimeError("out of memory")
        return {"first_step_s": 1.0, "peak_memory_mb": 2.0}

    monkeypatch.setattr(first_steps, "measure_elsewhere", measure)
    failed = {}
    row = first_steps.compare("bert", "infer", ARGUMENTS, str(tmp_path), failed)
    assert failed == {"compile": "out of memory"}
    assert started.count("compile") == 1
    assert started.count("eager") == 4
    assert row["compile first s"] is None
    assert row["lazuli MB"] == 2.0


def test_what_was_not_measured_has_no_table(capsys):
    models.print_results([{"model": "bert", "mode": "infer", "eager MB": 88.0, "failed": {}}])
    assert "88" in capsys.readouterr().out
    models.print_results([{"model": "bert", "mode": "infer", "eager ms": 88.0, "failed": {}}])
    assert capsys.readouterr().out.count("bert") == 1


def test_a_difference_is_relative_to_the_largest_number():
    results = {"eager": [torch.tensor([0.0, 4.0])], "lazuli": [torch.tensor([1.0, 4.0])]}
    assert steady.largest_difference(results) == 0.25


def test_the_line_that_says_why_a_process_failed():
    output = "Traceback:\n  File x\ntorch.cuda.OutOfMemoryError: no memory\n\nand more\n"
    expected = "torch.cuda.OutOfMemoryError: no memory (exit status 1)"
    assert harness.what_failed(output, 1) == expected
    assert harness.what_failed("", -9) == " (exit status -9)"


def test_cuda_graphs_are_no_arm_of_a_cpu():
    assert "compile-reduce-overhead" not in harness.arms_on("cpu")
    assert "compile-reduce-overhead" in harness.arms_on("cuda")


def test_a_group_is_chosen_where_no_models_are_named():
    assert zoo.chosen("cpu", None, None) == zoo.GROUPS["cpu"]["small"]
    assert "bert-base-2x128" in zoo.chosen("cpu", "usual", None)
    assert zoo.chosen("cpu", "usual", ["gru"]) == ["gru"]
    with pytest.raises(SystemExit, match="no group small on cuda"):
        zoo.chosen("cuda", "small", None)


def test_groups_name_models_that_are_there():
    named = {name for groups in zoo.GROUPS.values() for names in groups.values() for name in names}
    assert named <= zoo.MODELS.keys()


def test_means_are_by_mode_and_leave_failures_out():
    gains = [("infer", 2.0), ("train", 3.0), ("infer", 8.0), ("infer", None)]
    rows = [{"model": "bert", "mode": mode, "eager/lazuli": gain} for mode, gain in gains]
    infer, train = models.mean_gains(rows)
    assert infer == {"geometric mean": "infer", "eager/lazuli": pytest.approx(4.0)}
    assert train["eager/lazuli"] == pytest.approx(3.0)
