"""A fixed sample of the derivatives suite; `tools/conformance derivatives` runs all of it."""

import pytest
from derivative_cases import cases, run
from differences import listed
from sampling import chosen

SHARE = 8  # one case in so many, and its first inputs: about a minute on one core
FEW = 2


def sample():
    reasons = listed("derivatives", cases())
    for name in cases():
        if not chosen(name, SHARE):
            continue
        marks = [pytest.mark.xfail(reason=reasons[name], strict=True)] if name in reasons else []
        yield pytest.param(name, None if name in reasons else FEW, marks=marks, id=name)


@pytest.mark.parametrize(("name", "most"), sample())
def test_derivative(name, most, device):
    run(cases()[name], most)
