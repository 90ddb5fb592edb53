"""Linear layers whose weights have four bits, by formulas that unpack them."""

import pytest
import torch
from differential import assert_same, normal
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("planned_at_once")

ROWS, DEPTH = 304, 512


def nibbles(device, *shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8).to(device)


def halves_stacked(x, device):
    """Two weights side by side in a byte."""
    p = nibbles(device, ROWS, DEPTH // 2)
    return x @ (torch.stack([p & 15, p >> 4], -1).reshape(ROWS, DEPTH).to(x.dtype) - 8).t()


def halves_apart(x, device):
    """The first half of a row in the low halves of bytes, the second in the high ones."""
    p = nibbles(device, ROWS, DEPTH // 2)
    return x @ (torch.cat([p & 15, p >> 4], 1).to(x.dtype) - 8).t()


def in_groups(x, device):
    p, scales = nibbles(device, ROWS, DEPTH // 2), torch.rand(ROWS, DEPTH // 64, 1).to(device)
    numbers = torch.stack([p & 15, p >> 4], -1).reshape(ROWS, -1, 64).to(x.dtype) - 8
    return F.linear(x, (numbers * scales.to(x.dtype)).reshape(ROWS, DEPTH))


def awq(x, device):
    """Eight weights of a row in an int32, in AWQ's order, with zeros that are packed alike."""
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7]).to(device)
    shifts = torch.arange(0, 32, 4).to(device)[order].to(torch.int32)

    def unpack(p):
        return (p[..., None] >> shifts & 15).reshape(p.shape[0], -1)

    full = 2**31
    w = torch.randint(-full, full, (DEPTH, ROWS // 8), dtype=torch.int32).to(device)
    zeros = torch.randint(-full, full, (DEPTH // 64, ROWS // 8), dtype=torch.int32).to(device)
    scales = torch.rand(DEPTH // 64, ROWS).to(device).to(x.dtype)
    numbers = unpack(w) - unpack(zeros).repeat_interleave(64, 0)
    return x @ (numbers.to(x.dtype) * scales.repeat_interleave(64, 0))


def by_table(x, device):
    """Sixteen values of a table by index, with a scale a block, as bitsandbytes has them."""
    table = torch.linspace(-1, 1, 16).to(device)
    p = nibbles(device, ROWS * DEPTH // 2, 1)
    numbers = table[torch.cat([p >> 4, p & 15], 1).reshape(-1).long()]
    scales = torch.rand(ROWS * DEPTH // 64).to(device)
    return F.linear(x, (numbers.view(-1, 64) * scales[:, None]).view(ROWS, DEPTH).to(x.dtype))


FORMULAS = [halves_stacked, halves_apart, in_groups, awq, by_table]


@pytest.mark.parametrize("count", [1, 4, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("formula", FORMULAS)
def test_formula(formula, dtype, count, counters):
    def run(device):
        return formula(normal(count, DEPTH, device=device).div(DEPTH).to(dtype), device)

    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    assert_same(run, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_leave_no_matrix_in_memory(formula, counters):
    global ROWS, DEPTH
    rows, depth = ROWS, DEPTH
    ROWS, DEPTH = 1024, 1024
    try:
        for _ in range(3):
            x = normal(1, DEPTH, device="lazuli")
            torch.lazuli.synchronize()
            before = torch.lazuli.memory_allocated()
            torch.lazuli.reset_peak_memory_stats()
            y = formula(x, "lazuli")
            torch.lazuli.synchronize()
            grown = torch.lazuli.max_memory_allocated() - before
            del y
        assert grown < 2 * ROWS * DEPTH, grown / (ROWS * DEPTH)
    finally:
        ROWS, DEPTH = rows, depth
