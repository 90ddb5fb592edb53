"""Circular padding is the device's own, and its derivatives."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal


def padded(device, shape, amounts, dtype=torch.float64, layout=torch.contiguous_format):
    x = normal(*shape, device=device).to(dtype).to(memory_format=layout).requires_grad_()
    y = torch.nn.functional.pad(x, amounts, mode="circular")
    weights = (torch.arange(y.numel(), device=device).view(y.shape) % 7).to(dtype)
    (gradient,) = torch.autograd.grad((y * weights * y).sum(), x)
    return y, torch.tensor([y._version, *y.stride()]), gradient


@pytest.mark.parametrize(
    ("shape", "amounts"),
    [
        ((2, 3, 7), (1, 2)),
        ((2, 3, 7), (7, 7)),
        ((3, 7), (0, 3)),
        ((2, 3, 4, 5), (1, 1, 2, 0)),
        ((2, 3, 4, 5), (0, 0, 0, 0)),
        ((2, 1, 16, 33), (3, 3, 3, 3)),
        ((2, 2, 3, 4, 5), (1, 0, 2, 1, 3, 3)),
        ((2, 3, 4, 5), (-1, 2, 1, -2)),
    ],
)
def test_amounts(shape, amounts, counters):
    assert_same(lambda device: padded(device, shape, amounts))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_types(dtype):
    def pad(device):
        x = normal(2, 3, 4, 5, device=device).to(dtype)
        return torch.nn.functional.pad(x, (1, 2, 2, 1), mode="circular")

    assert_same(pad)


def test_channels_last():
    assert_same(lambda d: padded(d, (2, 3, 4, 5), (1, 1, 2, 0), layout=torch.channels_last))


def test_a_result_is_memory_of_its_own():
    def write(device):
        x = normal(2, 3, 5, device=device)
        y = torch.nn.functional.pad(x, (0, 0), mode="circular")
        y += 1
        return x, y

    assert_same(write)


@pytest.mark.parametrize("amounts", [(8, 0), (0, 9), (-4, -4), (1, 1, 1)])
def test_what_is_refused(amounts):
    def pad(device):
        return torch.nn.functional.pad(normal(2, 3, 7, device=device), amounts, mode="circular")

    assert_same_error(pad)
