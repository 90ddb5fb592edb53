"""Enlarging by whole factors is a kernel of the device's own, backward too; the rest is eager's."""

import pytest
import torch
from differential import assert_same, normal


def enlarged(device, **options):
    x = normal(2, 3, 4, 5, device=device, grad=True)
    y = torch.nn.functional.interpolate(x, mode="nearest", **options)
    (y * torch.arange(y.numel(), device=device).view(y.shape)).sum().backward()
    return y, x.grad


@pytest.mark.parametrize("options", [{"scale_factor": 2}, {"size": (12, 5)}], ids=str)
def test_whole_factors(options, counters):
    assert_same(lambda device: enlarged(device, **options))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize(
    "options", [{"scale_factor": 1.5}, {"size": (8, 12)}, {"size": 3}], ids=str
)
def test_other_sizes(options, counters):
    assert_same(lambda device: enlarged(device, **options))
    assert counters()["external_calls"]
