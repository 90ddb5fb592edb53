"""Filling where a mask says, and choosing into a given tensor: what is native of other types."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal, tensor

MASK = [True, False, True]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(torch.bool, True), (torch.int64, -3), (torch.int32, 7), (torch.uint8, 255), (torch.int8, 1)],
    ids=str,
)
def test_numbers_that_fit(dtype, value, counters):
    def run(device):
        x, mask = tensor([0, 1, 0], device, dtype), tensor(MASK, device)
        out = x.masked_fill(mask, value)
        x.masked_fill_(~mask, value)
        return out, x, x.masked_fill(mask, tensor(value, device, dtype))

    assert_same(run)
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.int64, 1.5), (torch.uint8, 256), (torch.bool, 2)], ids=str
)
def test_numbers_that_eager_judges(dtype, value):
    def run(device):
        x, mask = tensor([0, 1, 0], device, dtype), tensor(MASK, device)
        return x.masked_fill(mask, value)

    try:
        run("cpu")
    except RuntimeError:
        assert_same_error(run)
    else:
        assert_same(run)


def test_choosing_into_a_tensor(counters):
    def run(device):
        x, mask = normal(2, 3, device=device), tensor(MASK, device)
        out = torch.zeros(2, 3, device=device)
        torch.where(mask, x, torch.tensor(0.0), out=out)
        view = torch.zeros(3, 2, device=device).t()
        torch.where(mask, x, out, out=view)
        torch.where(mask, x, view, out=view)
        return out, view, torch._safe_softmax(x.masked_fill(mask[:2, None], -torch.inf), 1)

    assert_same(run)
    assert counters()["external_calls"] == {}


def chosen_within(first, second):
    """From a window of a tensor's memory into another one."""

    def run(device):
        x = torch.arange(6.0, device=device)
        torch.where(tensor(MASK, device), x[first], x[first] * 2, out=x[second])
        return x

    return run


def test_choosing_into_an_operands_memory():
    assert_same(chosen_within(slice(0, 3), slice(3, 6)))
    assert_same_error(chosen_within(slice(0, 3), slice(1, 4)))


def test_infinities_of_either_sign(counters):
    values = [0.0, -torch.inf, torch.inf, torch.nan]
    assert_same(
        lambda device: [f(tensor(values, device)) for f in (torch.isposinf, torch.isneginf)]
    )
    assert_same(lambda device: torch.isneginf(tensor([1, -2], device)))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize(
    "numbers", [(0, 5), (0.5, 3, 0.25), (3, -1, -0.5), (0.0, 1.0, 0.1), (2, 2), (-1e-3, 1, 0.3)]
)
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64], ids=str)
def test_ranges(numbers, dtype, counters):
    assert_same(lambda device: torch.arange(*numbers, dtype=dtype, device=device))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int16], ids=str)
def test_ranges_of_narrow_integers(dtype, counters):
    assert_same(lambda device: torch.arange(3, 90, 7, dtype=dtype, device=device))
    assert counters()["external_calls"] == {}
