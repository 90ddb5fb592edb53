"""Advice names the problem of a program, its line and what to do; a clean one gets none."""

import planted
import pytest
import torch
from torch_lazuli.advice import advise
from torch_lazuli.event import Event


@pytest.fixture
def explanation(device):
    def explain(program):
        torch.lazuli.synchronize()
        torch.lazuli.explain()
        kept = program()  # which may be what costs memory
        found = torch.lazuli.explain()
        del kept
        return found

    return explain


@pytest.mark.parametrize("problem", planted.PROBLEMS)
def test_the_first_advice_names_the_problem(explanation, problem):
    program = planted.PROBLEMS[problem]
    found = explanation(program)
    first = found.advice[0]
    assert (first.problem, first.where) == (
        problem,
        f"{planted.__file__}:{planted.line_of(program)}",
    )
    assert len(found.advice) == 1, found.advice
    assert str(found).startswith(f"advice: {first.where}: {first.text}\n")


@pytest.mark.parametrize(
    "program", [planted.clean, planted.clean_inference, planted.clean_buffer_of_numpy]
)
def test_a_clean_program_gets_no_advice(explanation, program):
    found = explanation(program)
    assert found.advice == []
    assert "advice" not in str(found)


def test_what_happens_now_and_then_is_no_problem():
    events = [
        Event("sync", "optimizer step", 100, 1.0, "a.py:1"),
        Event("sync", "read", 10, 1.0, "a.py:2"),
    ]
    assert advise(events) == []


def test_what_takes_longest_comes_first():
    events = [
        Event("sync", "optimizer step", 10, 1.0, "a.py:1"),
        Event("sync", "read", 10, 1.0, "a.py:2"),
        Event("external", "aten::cdist", 10, 5.0, "a.py:3"),
    ]
    assert [advice.where for advice in advise(events)] == ["a.py:3", "a.py:2"]


def test_a_library_that_lazuli_chose_is_no_problem():
    events = [
        Event("sync", "optimizer step", 10, 1.0, "a.py:1"),
        Event("external", "lazuli::recurrent", 10, 5.0, "a.py:2"),
    ]
    assert advise(events) == []


def test_lines_of_files_that_are_not_there():
    events = [
        Event("sync", "optimizer step", 9, 1.0, ""),
        Event("sync", "read", 9, 1.0, "<stdin>:1"),
    ]
    (advice,) = advise(events)
    assert (advice.problem, advice.where) == ("log", "<stdin>:1")


def test_a_derivative_that_reads_is_named():
    events = [
        Event("sync", "optimizer step", 10, 1.0, "a.py:1"),
        Event("sync", "read in CumprodBackward0", 10, 1.0, "a.py:2"),
        Event("sync", "data-dependent op in IndexBackward0", 10, 1.0, "a.py:2"),
    ]
    (advice,) = advise(events)
    assert (advice.problem, advice.where) == ("derivative", "a.py:2")
    assert "CumprodBackward0" in advice.text
