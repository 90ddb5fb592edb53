"""What programs are made of."""

import itertools

import pytest

from fuzz import catalog, common_ops, steering

TOO_LARGE = {"slice_scatter"}  # OpInfo has it of 8,000 elements only
HERE = {"bernoulli"}  # of steps/random_ops.py


@pytest.mark.parametrize("name", [n for n in common_ops.common() if n not in TOO_LARGE])
def test_common_operators_have_samples(name):
    """One without is in no program, and one with empty operands only computes nothing."""
    samples = catalog.samples(name, catalog.types(name)[0])
    assert samples
    assert not all(map(catalog.is_empty, samples))


def test_the_most_used_are_two_hundred_operators():
    assert len(set(common_ops.most_used())) == 200
    assert set(common_ops.most_used()) - HERE <= set(catalog.operators())


def test_a_run_goes_for_each_pair_once_before_any_comes_again():
    names = common_ops.most_used()[:30]
    walk = steering.walk(7, tuple(names))
    assert sorted(walk) == sorted(itertools.product(names, repeat=2))
    assert all(a[1] == b[0] for a, b in itertools.pairwise(walk))


def test_what_was_met_too_seldom_is_asked_for_as_often_as_it_is_short_of():
    missed = [("add", "mul", steering.OFTEN - 2), ("mul", "sub", steering.OFTEN - 1)]
    assert sorted(steering.chained(missed)) == [("add", "mul"), ("add", "mul"), ("mul", "sub")]
