"""Bounds of which one may be absent, in every form; and other in-place forms with rows."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

BOUNDS = [(-0.5, 0.5), (-0.5, None), (None, 0.5), (0, None), (None, 0), (1, -1)]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_in_place_and_into_a_tensor(bounds, dtype, counters):
    def clamp(device):
        x = normal(4, 5, device=device, dtype=dtype)
        x[0, 0] = float("nan")
        out = torch.empty(3, device=device, dtype=dtype).resize_(0)
        torch.clamp(x, *bounds, out=out)
        y, z = x.clone(), x.clone()
        y.clamp_(*bounds)
        z.t()[1:3].clip_(*bounds)
        return x.clamp(*bounds), y, z, out, y._version

    assert_same(clamp)
    assert not counters()["external_calls"]


@pytest.mark.parametrize("bounds", [(2, None), (None, 3), (2, 3)], ids=str)
def test_integers(bounds, counters):
    def clamp(device):
        x = torch.arange(6).to(device)
        return x.clamp_(*bounds)

    assert_same(clamp)
    assert not counters()["external_calls"]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_gradients(bounds):
    def differentiate(device):
        x = normal(4, 5, device=device, grad=True)
        y = x * 2
        y.clamp_(*bounds)
        (y * y).sum().backward()
        return x.grad

    assert_same(differentiate)


def test_what_cpu_refuses():
    assert_same_error(lambda device: torch.arange(3).to(device).clamp_(min=1.5), RuntimeError)
    assert_same_error(lambda device: normal(3, device=device).clamp_(), RuntimeError)
    assert_same_error(lambda device: normal(1, device=device).expand(3).clamp_(min=0), RuntimeError)


@pytest.mark.parametrize("divisor", [2.0, -3, "tensor"])
def test_floor_division_in_place(divisor, counters):
    def divide(device):
        x, whole = normal(4, 5, device=device), torch.arange(-4, 6).to(device)
        by = normal(5, device=device) if divisor == "tensor" else divisor
        x //= by
        x.t().floor_divide_(0.5)
        whole //= 3 if divisor == "tensor" else int(divisor)
        return x, whole

    assert_same(divide)
    assert not counters()["external_calls"]
