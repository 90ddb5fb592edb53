"""weight_norm's fused operators, and through them the module."""

import pytest
import torch
from differential import assert_same


@pytest.mark.parametrize("dim", [0, 2])
def test_a_module(dim, counters):
    def run(device):
        conv = torch.nn.Conv1d(3, 4, 5)
        conv = torch.nn.utils.parametrizations.weight_norm(conv, dim=dim).to(device)
        x = torch.randn(2, 3, 9).to(device)
        conv(x).square().sum().backward()
        return conv.weight, [p.grad for p in conv.parameters()]

    assert_same(run, rtol=1e-4, atol=1e-5)
    assert counters()["external_calls"] == {}
