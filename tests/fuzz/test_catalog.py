"""What programs are made of."""

import pytest

from fuzz import catalog, common_ops

TOO_LARGE = {"slice_scatter"}  # OpInfo has it of 8,000 elements only


@pytest.mark.parametrize("name", [n for n in common_ops.common() if n not in TOO_LARGE])
def test_common_operators_have_samples(name):
    """One without is in no program."""
    assert catalog.samples(name, catalog.types(name)[0])
