"""smooth_l1_loss is the device's own, backward too."""

import math

import pytest
import torch
from differential import assert_same, normal, tensor
from torch.nn.functional import huber_loss, smooth_l1_loss

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13, torch.bfloat16: 1.6e-2}
REDUCTIONS = ("none", "mean", "sum")


@pytest.mark.parametrize("beta", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda t: str(t).split(".")[1])
def test_loss_and_gradients(dtype, reduction, beta, counters):
    def step(device):
        x = normal(7, 5, device=device, dtype=dtype, grad=True)
        target = normal(7, 5, device=device, dtype=dtype, grad=True)
        loss = smooth_l1_loss(x, target, reduction=reduction, beta=beta)
        (loss * loss).sum().backward()
        return loss, x.grad, target.grad

    assert_same(step, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] / 10)
    assert not counters()["external_calls"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("loss", [smooth_l1_loss, huber_loss])
def test_a_curve_without_end(loss, reduction):
    end = {smooth_l1_loss: "beta", huber_loss: "delta"}[loss]

    def step(device):
        x = normal(7, 5, device=device, grad=True)
        found = loss(x, x.detach().roll(1), reduction=reduction, **{end: math.inf})
        found.sum().backward()
        return found, x.grad

    assert_same(step)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_edges(reduction):
    def step(device):
        edges = [0, -0.0, 0.5, -0.5, 1e-8, -1e-8, 1e30, -1e30, 1e-42, math.inf, -math.inf, math.nan]
        x = tensor(edges, device, grad=True)
        loss = smooth_l1_loss(x, torch.zeros_like(x), reduction=reduction, beta=0.5)
        loss.sum().backward()
        return loss, x.grad

    assert_same(step, rtol=1e-6, atol=1e-40)


def test_an_infinite_gradient():
    def step(device):
        x = normal(7, device=device, grad=True)
        smooth_l1_loss(x, torch.zeros_like(x), beta=0.5).backward(tensor(math.inf, device))
        return x.grad

    assert_same(step)


@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("shape", [(), (0,), (1, 3)])
def test_shapes_and_no_curve(shape, beta):
    def step(device):
        x = normal(*shape, device=device, grad=True)
        loss = smooth_l1_loss(x, torch.zeros_like(x), beta=beta)
        loss.backward()
        return loss, x.grad

    assert_same(step)
