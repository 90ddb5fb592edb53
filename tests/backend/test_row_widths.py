"""Rows of every width around the vectors': whole vectors, and a last one with fewer lanes."""

import pytest
import torch
from differential import assert_same

WIDTHS = [1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40, 48, 56, 63, 65, 127, 130]
TYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.int64,
    torch.int16,
    torch.uint8,
    torch.bool,
]


def numbers(shape, dtype, device):
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 37 % 251).reshape(shape).to(dtype).to(device)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_read_backwards(width, dtype):
    assert_same(lambda device: numbers((5, 3, width), dtype, device).flip(-1) + 1)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_written_backwards(width, dtype):
    def program(device):
        x = numbers((5, 3, width), dtype, device)
        y = torch.zeros(5, 3, width + 2, dtype=dtype, device=device)
        y[..., 1:-1] = x.flip(-1)
        return y, y.flip(0, 2)

    assert_same(program)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_parts_of_rows(width, dtype):
    def program(device):
        x = numbers((7, width + 5), dtype, device)
        y = numbers((7, width + 9), dtype, device)
        y[:, 4 : 4 + width] = x[:, 2 : 2 + width] * 2
        return y, y[:, 4 : 4 + width].contiguous()

    assert_same(program)


@pytest.mark.parametrize("width", WIDTHS)
def test_gradients_of_flips(width):
    def program(device):
        x = numbers((6, width), torch.float32, device).requires_grad_()
        (x.flip(-1) * x).sum().backward()
        return x.grad

    assert_same(program)
