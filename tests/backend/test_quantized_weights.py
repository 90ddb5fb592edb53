"""Linear layers whose weights have few bits: dequantized where they are used, by any formula."""

import pytest
import torch
from differential import assert_same, normal
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("planned_at_once")

COLUMNS, DEPTH, GROUP = 300, 512, 64  # of a weight that is large enough to count


def weights(device, dtype=torch.int8, shape=(COLUMNS, DEPTH)):
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max + 1, shape, dtype=dtype).to(device)


def scale_after(x, w, scales, device):
    return F.linear(x, w.to(x.dtype)) * scales.to(x.dtype)


def scale_before(x, w, scales, device):
    return F.linear(x, w.to(x.dtype) * scales.to(x.dtype)[:, None], scales.to(x.dtype))


def in_groups(x, w, scales, device):
    by_group = torch.rand(COLUMNS, DEPTH // GROUP, 1).to(x.dtype).to(device)
    dense = ((w.reshape(COLUMNS, -1, GROUP).to(x.dtype) - 3) * by_group).reshape(COLUMNS, DEPTH)
    return x @ dense.t()


def rows_of_weights(x, w, scales, device):
    """[depth, columns] in memory."""
    return x @ w.reshape(DEPTH, COLUMNS).to(x.dtype)


def with_an_activation(x, w, scales, device):
    return F.gelu(F.linear(x, w.to(x.dtype)) * scales.to(x.dtype) * 1e-2)


def weights_first(x, w, scales, device):
    return w.to(x.dtype) @ x.t()


def kept_as_well(x, w, scales, device):
    """Somebody else reads the dequantized weights, so that they are in memory."""
    dense = w.to(x.dtype)
    return F.linear(x, dense), dense.sum(1)


FORMULAS = [
    scale_after,
    scale_before,
    in_groups,
    rows_of_weights,
    with_an_activation,
    weights_first,
    kept_as_well,
]
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_formula(formula, dtype, rows):
    def run(device):
        x = normal(rows, DEPTH, device=device).div(DEPTH).to(dtype)
        return formula(x, weights(device), torch.rand(COLUMNS).to(device), device)

    tolerance = TOLERANCES[dtype]
    assert_same(run, rtol=tolerance, atol=10 * tolerance)


def test_four_bits_in_shifts():
    """Eight weights in an int32, as GPTQ has them."""

    def run(device):
        packed = torch.randint(-(2**31), 2**31, (DEPTH // 8, COLUMNS), dtype=torch.int32).to(device)
        shifts = torch.arange(0, 32, 4, dtype=torch.int32).to(device)
        dense = (packed[:, None] >> shifts[:, None] & 15).reshape(DEPTH, COLUMNS)
        return normal(2, DEPTH, device=device) @ (dense.float() - 8)

    assert_same(run, rtol=1e-4, atol=1e-3)


def test_gradients():
    """Of what is multiplied, and of scales, through the dequantized weights."""

    def run(device):
        x = normal(2, DEPTH, device=device).div(1e4).requires_grad_()
        scales = torch.rand(COLUMNS).to(device).requires_grad_()
        y = F.linear(x, weights(device).float() * scales[:, None]).tanh()
        return torch.autograd.grad(y.sum(), [x, scales])

    assert_same(run, rtol=1e-4, atol=1e-4)


def test_nothing_that_is_dequantized_is_in_memory(device, counters):
    w, x = weights(device, shape=(1024, 1024)), normal(1, 1024, device=device)
    torch.lazuli.synchronize()
    before = torch.lazuli.memory_allocated()
    torch.lazuli.reset_peak_memory_stats()
    y = F.linear(x, w.float() * 0.5)
    torch.lazuli.synchronize()
    assert torch.lazuli.max_memory_allocated() - before < w.numel()
    expected = F.linear(x.cpu(), w.cpu().float() * 0.5)
    torch.testing.assert_close(y.cpu(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weight_int8pack_mm(rows, dtype, counters):
    def run(device):
        x = normal(rows, DEPTH, device=device, dtype=dtype)
        scales = torch.rand(COLUMNS).to(dtype).to(device) / DEPTH
        return torch._weight_int8pack_mm(x, weights(device), scales)

    tolerance = TOLERANCES[dtype]
    assert_same(run, rtol=tolerance, atol=100 * tolerance if dtype == torch.float32 else 0.1)
    assert not torch.lazuli.metrics()["external_calls"]


def test_scales_bring_back_what_float16_does_not_hold():
    def run(device):
        x = torch.ones(2, 4096, dtype=torch.float16).to(device)
        w = torch.full((64, 4096), 127, dtype=torch.int8).to(device)
        return torch._weight_int8pack_mm(x, w, torch.full((64,), 1e-4, dtype=x.dtype).to(device))

    assert_same(run, rtol=2e-3, atol=0)
