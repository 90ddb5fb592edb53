"""A fixed sample of random programs about most themes; `tools/fuzz --about` runs more."""

import pytest

from fuzz.sample import run_about

THEMES = (
    "attention",
    "products",
    "images",
    "mutation",
    "masks",
)  # programs of the others take long
PART = 8


@pytest.mark.parametrize("first", [0, PART])
@pytest.mark.parametrize("theme", THEMES)
def test_programs_about(theme, first):
    run_about(theme, first, PART)


@pytest.mark.parametrize("theme", THEMES)
def test_programs_about_op_by_op(theme):
    run_about(theme, 2 * PART, PART, unplanned="always")
