"""A fixed sample of the OpInfo suite, chosen by name; `tools/conformance opinfo` runs all of it."""

import pytest
from op_cases import cases, run
from sampling import sample

SHARE = 25  # one case in so many, and its first few inputs: about a minute on one core
FEW = 4


@pytest.mark.parametrize(("name", "most"), sample("opinfo", cases(), SHARE, FEW))
def test_operator(name, most, device):
    run(cases()[name], most)
