"""Conversions after conversions: each type that a number passes through leaves its mark."""

import itertools

import pytest
import torch
from differential import NATIVE_TYPES, assert_same

NUMBERS = [0, 1, 2, 3, 100, 127, 128, 200, 255, 256, 257, 300, 32767, 32768, 65504, 65505]
NUMBERS += [-1, -2, -100, -128, -129, 0.5, -0.5, 1.5, 254.5, 1e5, 2**24 + 1, 2**31 - 1]


def numbers_of(dtype):
    exact = torch.tensor(NUMBERS, dtype=torch.float64)
    return exact.to(torch.int64).to(dtype) if not dtype.is_floating_point else exact.to(dtype)


def fits(x, dtype):
    """Where a conversion means the same on every machine: C++ leaves the others open."""
    if dtype.is_floating_point or dtype == torch.bool or not x.dtype.is_floating_point:
        return torch.ones(x.shape, dtype=torch.bool)
    limits = torch.iinfo(dtype)
    exact = x.double()
    return (exact >= limits.min) & (exact <= limits.max)


def chains(first):
    """Every way through two further types, with the numbers for which each step has a meaning."""
    for middle, last in itertools.product(NATIVE_TYPES, NATIVE_TYPES):
        x = numbers_of(first)
        x = x[fits(x, middle)]
        yield x[fits(x.to(middle), last)], middle, last


@pytest.mark.parametrize("first", NATIVE_TYPES, ids=str)
def test_two_conversions(device, first):
    def convert(device):
        return [x.to(device).to(middle).to(last) for x, middle, last in chains(first)]

    assert_same(convert, rtol=0, atol=0)


@pytest.mark.parametrize("first", NATIVE_TYPES, ids=str)
def test_mask_of_any_type(device, first):
    """A mask made of numbers says yes or no, whatever is done with it."""

    def masks(device):
        mask = numbers_of(first).to(device).bool()
        return [
            mask.sum(),
            mask.float(),
            mask.to(torch.uint8),
            mask.float().mean(),
            ~mask,
            mask * 3,
        ]

    assert_same(masks, rtol=0, atol=0)
