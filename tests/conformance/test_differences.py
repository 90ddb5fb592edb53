"""A listed difference may be one of some versions of torch only."""

from differences import reason_with


def test_a_reason_holds_with_the_versions_that_it_names():
    assert reason_with("2.11.0+cu130", "rounding") == "rounding"
    since, before = "since torch 2.13, rounding: of 2", "before torch 2.13, on some CPUs, rounding"
    versions = ("2.9.1", "2.12.1", "2.13.0+cpu", "2.15.0")
    assert [reason_with(v, since) for v in versions] == [None, None, *["rounding: of 2"] * 2]
    assert [reason_with(v, before) for v in versions] == [
        *["on some CPUs, rounding"] * 2,
        None,
        None,
    ]
