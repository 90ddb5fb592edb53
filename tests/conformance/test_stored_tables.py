"""The stored tables are what the command wrote, with the torch whose folder they lie in."""

import json

import folders
import pytest
from report import markdown, verdict

SUITES = ("derivatives", "modules", "opinfo", "optimizers")
TABLES = sorted(file for name in SUITES for file in folders.STORED.rglob(f"{name}.json"))


def torch_of(table) -> str:
    kept_apart = table.parent.name.partition("torch-")[2]
    return kept_apart or folders.usual_torch()


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{torch_of(t)}-{t.stem}")
def test_a_table_is_of_its_torch_and_nothing_failed(table):
    stored = json.loads(table.read_text())
    assert stored["about"].startswith(f"torch {torch_of(table)}")
    assert stored["about"].endswith("all samples")
    failed = [
        n for n, c in stored["cases"].items() if verdict(c["outcome"], c["listed"]) == "failed"
    ]
    assert failed == []
    assert table.with_suffix(".md").read_text() == markdown(table.stem, stored)


def test_what_another_torch_finds_lies_apart(tmp_path):
    usual = folders.usual_torch()
    assert folders.of_torch(tmp_path, f"{usual}+cu130") == tmp_path
    assert folders.of_torch(tmp_path, "9.1.2+cpu") == tmp_path / "torch-9.1.2"
