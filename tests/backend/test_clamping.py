"""Bounds of which one may be absent, in every form; and other in-place forms with rows."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

NAN = float("nan")
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


@pytest.mark.parametrize("bounds", [(NAN, None), (None, NAN), (NAN, 1), (-1, NAN)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_a_bound_that_is_no_number(bounds, dtype):
    def clamp(device):
        x = torch.arange(-2, 3).to(device, dtype)
        kind = torch.promote_types(dtype, torch.float32)
        out = torch.clamp(x, *bounds, out=torch.empty(0, dtype=kind, device=device))
        low = torch.clamp_min(x, NAN)
        written = x.to(kind)
        written.clamp_(*bounds)
        leaf = x.to(kind).requires_grad_()
        leaf.clamp(*bounds).sum().backward()
        return x.clamp(*bounds), out, low, written, leaf.grad

    assert_same(clamp)


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


AT_BOUNDS = {
    "hardtanh": lambda x: torch.nn.functional.hardtanh(x, -0.5, 0.5),
    "relu": torch.relu,
    "relu6": torch.nn.functional.relu6,
    "threshold": lambda x: torch.nn.functional.threshold(x, 0.5, 2.0),
    "hardsigmoid": torch.nn.functional.hardsigmoid,
    "hardshrink": torch.nn.functional.hardshrink,
    "softshrink": torch.nn.functional.softshrink,
    "clamp": lambda x: x.clamp(-0.5, 0.5),
}


@pytest.mark.parametrize("function", AT_BOUNDS.values(), ids=AT_BOUNDS.keys())
def test_derivatives_at_the_bounds(function):
    def derivative(device):
        x = torch.tensor([-3.0, -0.5, 0, 0.5, 3, 6], device=device, requires_grad=True)
        y = function(x)
        y.sum().backward()
        return y, x.grad

    assert_same(derivative)


def test_an_interpolation_begins_and_ends_where_it_is_told():
    """Though the difference of both loses all digits of the smaller."""

    def interpolate(device):
        start = torch.tensor([1.0, 1e8, -3.3, 1e-20], device=device)
        end = torch.tensor([3.0, 0.1, 7.7, -5.0], device=device)
        weights = torch.tensor([0.0, 1.0, 0.0, 1.0], device=device)
        exact = torch.stack([start.lerp(end, 0.0), start.lerp(end, 1.0), start.lerp(end, weights)])
        assert torch.equal(exact[0], start)
        assert torch.equal(exact[1], end)
        return exact

    assert_same(interpolate)
