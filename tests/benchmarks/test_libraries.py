"""Rows that say whether the fastest of several calls is chosen."""

from benchmarks.libraries import __main__ as libraries


def line(variant: str, us: float, by: str) -> dict:
    speed = {"GF/s": 12 / us, "peak GF/s": 4.0}
    return {"call": "mm", "variant": variant, "us": us, "made us": [9, 1], "by": by} | speed


def test_a_choice_is_compared_with_the_fastest():
    lines = [line("chosen", 6.0, "blas"), line("own", 3.0, "gemm"), line("quick", 4.0, "row")]
    (row,) = libraries.rows_of(lines)
    assert row["fastest"] == "own"
    assert row["behind"] == 2.0
    assert row["of peak"] == 0.5
    assert row["oneDNN as given us"] is None


def test_the_same_implementation_is_as_good():
    (row,) = libraries.rows_of([line("chosen", 6.0, "gemm"), line("own", 3.0, "gemm")])
    assert (row["fastest"], row["behind"]) == ("chosen", 1.0)


def test_passes_give_medians():
    runs = [line("chosen", us, "gemm") for us in (1.0, 9.0, 2.0)]
    assert libraries.rows_of(runs)[0]["chosen us"] == 2.0
