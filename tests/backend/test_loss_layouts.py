"""Losses of two operands are the device's own in any layout, and laid out as eager's."""

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, normal

TARGETS = {
    "row-major": lambda t: t,
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "transposed": lambda t: t.mT.contiguous().mT,
    "broadcast": lambda t: t[:1].expand(t.shape),
    "slice": lambda t: torch.cat([t, t], 1)[:, ::2],
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_layouts(loss, reduction, format, target, counters):
    layouts = []

    def step(device):
        x = normal(2, 6, 4, 5, device=device).contiguous(memory_format=format).requires_grad_()
        y = TARGETS[target](normal(2, 6, 4, 5, device=device)).requires_grad_()
        value = loss(x, y, reduction=reduction)
        gradients = torch.autograd.grad((value * value).sum(), [x, y])
        layouts.append([t.stride() for t in (value, *gradients)])
        return value, *gradients

    assert_same(step, rtol=1e-5, atol=1e-6)
    assert layouts[0] == layouts[1]
    assert not counters()["external_calls"]
