"""Operands that lie transposed to each other, in one kernel: random shapes, orders and dtypes."""

import random

import pytest
import torch
from differential import assert_same

DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


def drawn(shape, dtype, device):
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype).to(device)


def shuffled(n):
    return random.sample(range(n), n)


def inverse(order):
    return [order.index(d) for d in range(len(order))]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_permuted_copies(seed, dtype):
    def permute(device):
        random.seed(seed)
        shape = [
            random.choice([1, 2, 3, 5, 16, 17, 31, 33, 50]) for _ in range(random.randint(2, 4))
        ]
        return drawn(shape, dtype, device).permute(shuffled(len(shape))).contiguous()

    assert_same(permute)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_mixed_layouts_in_one_kernel(seed, dtype):
    """Operands of one logical shape, each in a memory order of its own; one is broadcast."""

    def mix(device):
        random.seed(seed)
        shape = [random.choice([2, 4, 16, 19, 40, 65]) for _ in range(random.randint(2, 3))]
        operands = []
        for _ in range(3):
            order = shuffled(len(shape))
            x = drawn([shape[d] for d in order], dtype, device)
            operands.append(x.permute(inverse(order)))
        a, b, c = operands
        bias = drawn([shape[0]] + [1] * (len(shape) - 1), dtype, device)
        both = a * 3 + b - c * bias
        return both, both.transpose(0, 1).contiguous(), (a - c).contiguous()

    assert_same(mix)


@pytest.mark.parametrize("columns", [1, 3, 16, 24, 100])
@pytest.mark.parametrize("rows", [1, 5, 16, 130])
def test_sum_with_the_transpose(rows, columns):
    def add(device):
        x = torch.randn(rows, columns).to(device)
        y = torch.randn(columns, rows).to(device)
        x += y.t()
        return x, torch.nn.functional.gelu(y.t() * 2) + x

    assert_same(add, rtol=1e-5, atol=1e-6)


def test_a_square_matrix_changed_by_its_own_transpose():
    def change(device):
        x = torch.randn(70, 70).to(device)
        x += x.t() * 2
        x.copy_(x.t() - 1)
        x.mul_(x.t().contiguous())
        return x

    assert_same(change)


@pytest.mark.parametrize("channels", [2, 3, 8, 64])
def test_channels_last_and_back(channels):
    def turn(device):
        x = torch.randn(2, channels, 9, 11).to(device)
        y = x.to(memory_format=torch.channels_last)
        return y, (y * 2).contiguous(), (y + x).contiguous()

    assert_same(turn)


def test_attention_heads():
    def heads(device):
        x = torch.randn(2, 5, 12, 16).to(device)
        return x.permute(0, 2, 1, 3).contiguous(), x.permute(0, 2, 3, 1).contiguous() * 2

    assert_same(heads)
