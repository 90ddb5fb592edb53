"""The sample's second half, in a file of its own: two processes share the tests by files."""

import pytest

from fuzz.sample import HALVES, run_part


@pytest.mark.parametrize("first", HALVES[1])
def test_programs(first):
    run_part(first)


@pytest.mark.parametrize("first", HALVES[1])
def test_programs_op_by_op(first):
    run_part(first, unplanned="always")
