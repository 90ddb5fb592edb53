"""A fixed sample of the OpInfo suite, chosen by name; `tools/conformance opinfo` runs all of it."""

import pytest
from differences import listed
from op_cases import cases, run
from sampling import chosen

SHARE = 25  # one case in so many, and its first few inputs: about a minute on one core
FEW = 4


def sample():
    reasons = listed("opinfo", cases())
    for name in cases():
        if not chosen(name, SHARE):
            continue
        # What differs may do so in the last input only.
        marks = [pytest.mark.xfail(reason=reasons[name], strict=True)] if name in reasons else []
        yield pytest.param(name, None if name in reasons else FEW, marks=marks, id=name)


@pytest.mark.parametrize(("name", "most"), sample())
def test_operator(name, most, device):
    run(cases()[name], most)
