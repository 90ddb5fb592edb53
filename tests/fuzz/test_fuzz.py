"""A fixed sample of random programs, first half; `tools/fuzz` runs as many as one likes."""

import pytest

from fuzz.sample import HALVES, run_part


@pytest.mark.parametrize("first", HALVES[0])
def test_programs(first):
    run_part(first)


@pytest.mark.parametrize("first", HALVES[0])
def test_programs_op_by_op(first):
    run_part(first, unplanned="always")
