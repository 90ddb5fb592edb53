"""The list of faults stays true as the sources change, and what is made of it is what it says."""

from collections import Counter

import pytest

from mutation import faults, plant, suites, tree

LISTED = faults.load()


def fault(place: str, put: str = "other") -> faults.Fault:
    return faults.Fault(7, "passes", "a.cpp", place, put, "breaks")


def test_every_place_is_found_once():
    assert faults.misplaced(LISTED, tree.ROOT) == []


def test_there_are_faults_of_every_theme():
    counts = Counter(fault.theme for fault in LISTED)
    assert set(counts) == set(suites.THEMES)
    assert len(LISTED) >= 100
    assert min(counts.values()) >= 5


def test_no_fault_is_listed_twice():
    assert len({fault.code for fault in LISTED}) == len(LISTED)
    assert all(fault.breaks and fault.put != fault.original for fault in LISTED)


def test_likely_tests_exist():
    for fault in LISTED:
        if fault.file.split("/")[0] in suites.CORE:
            assert "core" in suites.THEMES[fault.theme]
    for theme in suites.THEMES.values():
        for name in theme["python"]:
            assert (tree.ROOT / "tests" / name).exists(), name


def test_expression():
    one = fault("if («a < b») return;", "a <= b")
    text = plant.plant("if (a < b) return;\n", [one])
    assert f"if ((::lazuli::planted({one.code}) ? (a <= b) : (a < b))) return;\n" in text


def test_statement():
    one = fault("for (;;) «f(x);»", "")
    text = plant.plant("for (;;) f(x);\n", [one])
    assert f"for (;;) {{ if (::lazuli::planted({one.code})) {{  }} else {{ f(x); }} }}\n" in text


def test_compiled_in():
    assert plant.plant_alone("x = 1 + y;", fault("x = «1» + y;", "2")) == "x = 2 + y;"


@pytest.mark.parametrize("text", ["g(b);", "f(a); f(a);"])
def test_a_place_that_is_gone_or_there_twice_is_an_error(text):
    with pytest.raises(faults.Misplaced, match=r"fault 7 .*stands [02] times"):
        fault("f(«a»);").find(text)


def test_faults_may_not_overlap(tmp_path):
    (tmp_path / "a.cpp").write_text("if (a && b) return;")
    both = [fault("if («a && b»)"), fault("&& «b»")]
    assert "overlaps" in faults.misplaced(both, tmp_path)[0]
