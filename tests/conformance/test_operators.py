"""A fixed sample of the OpInfo suite, chosen by name; `tools/conformance opinfo` runs all of it."""

import pytest
from differences import listed
from op_cases import cases, chosen, run

SHARE = 40  # one case in so many: about a minute and a half on one core


def sample():
    reasons = listed("opinfo", cases())
    for name in cases():
        if chosen(name, SHARE):
            marks = (
                [pytest.mark.xfail(reason=reasons[name], strict=True)] if name in reasons else []
            )
            yield pytest.param(name, marks=marks, id=name)


@pytest.mark.parametrize("name", sample())
def test_operator(name, device):
    run(cases()[name])
