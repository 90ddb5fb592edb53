"""A fixed sample of the derivatives suite; `tools/conformance derivatives` runs all of it."""

import pytest
from derivative_cases import cases, run
from sampling import sample

SHARE = 8  # one case in so many, and its first inputs: about a minute on one core
FEW = 2


@pytest.mark.parametrize(("name", "most"), sample("derivatives", cases(), SHARE, FEW))
def test_derivative(name, most, device):
    run(cases()[name], most)
