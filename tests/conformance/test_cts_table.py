"""The table of TorchCTS keeps the suites of which more ran than here."""

import json

import cts_compared
import torch
from cts_report import markdown
from cts_table import differences, explained, not_eagers, tables, with_reruns, with_stored
from folders import STORED


def report(passed: dict, failed: dict, about="here") -> dict:
    """Of a run in which cpu passes all, and lazuli so many nodes of each suite."""
    found = {"outcome": "passed", "message": "", "seconds": 0}
    suites = sorted({*passed, *failed})
    nodes = {
        f"torchcts/{suite}/test_it.py::test_{outcome}[{i}]": {**found, "outcome": outcome}
        for outcome, counts in (("passed", passed), ("failed", failed))
        for suite, count in counts.items()
        for i in range(count)
    }
    outcomes = {"cpu": dict.fromkeys(nodes, found), "lazuli": nodes}
    gaps = {suite: {"cpu": "", "lazuli": about} for suite in suites}
    return {
        "about": about,
        "suites": tables(outcomes, gaps),
        "differences": differences(outcomes),
    }


def test_a_suite_that_ran_elsewhere_stays():
    here = report({"rng": 5, "memory": 0}, {"rng": 1, "memory": 0})
    there = report({"rng": 2, "memory": 7}, {"rng": 3, "memory": 2}, "there")
    merged = with_stored(here, there)
    assert merged["about"] == "here"
    assert merged["suites"]["rng"] == here["suites"]["rng"]
    assert merged["suites"]["memory"] == there["suites"]["memory"]
    of = [node.split("/")[1] for node in merged["differences"]]
    assert sorted(of) == ["memory", "memory", "rng"]


def test_as_much_as_is_stored_replaces_it():
    here, there = report({"rng": 3}, {"rng": 0}), report({"rng": 2}, {"rng": 1})
    assert with_stored(here, there) == here


def test_the_table_sums_what_ran_here_and_elsewhere():
    merged = with_stored(
        report({"rng": 5, "memory": 0}, {"rng": 1}), report({"memory": 90}, {"memory": 4})
    )
    reasons = dict.fromkeys(merged["differences"], "it rains")
    merged["differences"] = explained(merged["differences"], reasons)
    text = markdown(merged)
    assert "| all | 100 | 0 | 0 | 0 | 0 | 95 | 5 | 0 | 0 | 0 | 100 | 5 |" in text
    assert "lazuli passes 95.00 % of the nodes" in text
    assert "not run on lazuli: of memory here; of rng here" in text
    assert text.count("- `") == 5


def test_what_ran_again_of_a_stored_suite_replaces_its_outcome():
    there = report({"memory": 7, "rng": 3}, {"memory": 3, "rng": 1})
    node = "torchcts/memory/test_it.py::test_{}[{}]".format
    on_lazuli = {
        node("failed", 0): {"outcome": "passed"},  # was mended
        node("failed", 1): {"outcome": "crashed"},  # differs otherwise
        node("passed", 0): {"outcome": "failed"},  # differs since
        node("passed", 1): {"outcome": "failed"},  # perhaps on cpu too
        node("passed", 2): {"outcome": "passed"},
    }
    on_cpu = {node("passed", 0): {"outcome": "passed"}}
    merged = with_reruns(there, {"cpu": on_cpu, "lazuli": on_lazuli})
    counts = {"passed": 7, "failed": 2, "skipped": 0, "crashed": 1, "hung": 0}
    assert merged["suites"]["memory"]["lazuli"] == counts
    assert merged["suites"]["rng"] == there["suites"]["rng"]
    outcomes = {n: f["outcome"] for n, f in merged["differences"].items() if "memory" in n}
    assert outcomes == {
        node("failed", 1): "crashed",
        node("failed", 2): "failed",
        node("passed", 0): "failed",
    }


def test_what_is_listed_as_eagers_has_to_fail_on_cpu():
    found = {
        "a": {"as_eager": True, "reason": "as eager, which rounds"},
        "b": {"as_eager": False, "reason": "as eager, which rounds"},
        "c": {"as_eager": False, "reason": "on some CPUs, as eager"},
        "d": {"as_eager": False, "reason": "it rains"},
    }
    assert not_eagers(found) == ["b", "c"]


def test_a_compared_cpu_has_a_type_of_its_own_and_its_tensors():
    torch_of_tests = cts_compared.Torch()
    of_device = torch_of_tests.device(cts_compared.Name("cpu")).type
    of_tensor = torch.ones(1).device.type
    assert (of_device == "cpu", of_device != "cpu") == (False, True)
    assert (of_device == of_tensor, of_tensor != of_device) == (True, False)
    assert torch_of_tests.device("cpu").type == "cpu"


def test_the_stored_table_lists_as_eagers_what_is():
    stored = json.loads((STORED / "torchcts.json").read_text())
    assert not_eagers(stored["differences"]) == []
