"""Stored results name a commit that anybody can measure again."""

import subprocess
from pathlib import Path

import pytest

from benchmarks import revision


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A repository with a source file and a stored result."""
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "models.json").write_text("{}")
    (tmp_path / "source.py").write_text("1")
    who = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    monkeypatch.setattr(revision, "RESULTS", results)
    monkeypatch.delenv("LAZULI_LIBRARY", raising=False)
    return tmp_path


def test_a_commit_and_nothing_else_is_clean(checkout):
    facts = revision.facts(checkout)
    assert facts["clean"]
    assert len(facts["commit"]) == 40
    assert facts["library"] == "built from this tree"


@pytest.mark.parametrize("file", ["source.py", "new.py"])
def test_a_file_that_is_changed_or_new_is_not(checkout, file):
    (checkout / file).write_text("2")
    assert not revision.facts(checkout)["clean"]
    with pytest.raises(SystemExit, match=file):
        revision.refuse_unclean(checkout / "benchmarks/results/models.json", checkout)
    revision.refuse_unclean(checkout / "elsewhere.json", checkout)
    revision.refuse_unclean(None, checkout)


def test_new_results_do_not_count(checkout):
    (checkout / "benchmarks/results/models.json").write_text("[]")
    (checkout / "benchmarks/results/shapes.json").write_text("[]")
    assert revision.facts(checkout)["clean"]
    revision.refuse_unclean(checkout / "benchmarks/results/models.json", checkout)


def test_a_change_while_it_measured_is_known(checkout):
    began = revision.facts(checkout)
    assert revision.since(began, checkout) == began
    (checkout / "source.py").write_text("2")
    assert revision.since(began, checkout) == began | {"clean": False}


def test_a_library_that_was_given_is_known_by_its_contents(checkout, monkeypatch):
    library = checkout.parent / "liblazuli.so"
    library.write_bytes(b"")
    monkeypatch.setenv("LAZULI_LIBRARY", str(library))
    assert revision.facts(checkout)["library"].startswith("given, SHA-256 e3b0c442")


def test_outside_of_a_checkout_nothing_is_clean(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert revision.facts(tmp_path) | {"library": ""} == {
        "commit": "unknown",
        "clean": False,
        "library": "",
    }
