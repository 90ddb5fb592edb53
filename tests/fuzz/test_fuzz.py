"""A fixed sample of random programs; `tools/fuzz` runs as many as one likes."""

import pytest
import torch

from fuzz import known_differences, oracle
from fuzz.generate import generate
from fuzz.script import script

SEED, PROGRAMS, PART = 2026, 500, 25


@pytest.fixture(scope="module", autouse=True)
def numbers_of_eager():
    with torch.lazuli.config.patch(random="eager"):
        yield


@pytest.mark.parametrize("first", range(0, PROGRAMS, PART))
def test_programs(first):
    for k in range(first, first + PART):
        program, _ = generate(SEED, k)
        difference = oracle.check(program)
        if difference is not None and not known_differences.listed(program, difference):
            pytest.fail(f"tools/fuzz --seed {SEED} --only {k}\n{script(program, difference)}")
