"""Adam's first steps, without a plan, write over their state, and over nothing read later."""

import pytest
import torch
from differential import assert_same


def train(device, extra, steps=2):
    """What `extra` gave beside some steps, and the parameters behind them."""
    w, v = (torch.nn.Parameter(torch.randn(24, 24).to(device)) for _ in range(2))
    optimizer = torch.optim.Adam([w, v], lr=0.1, foreach=True)
    x, kept = torch.randn(8, 24).to(device), []
    for _ in range(steps):
        optimizer.zero_grad()
        ((x @ w).relu() @ v.t()).square().mean().backward()
        with torch.no_grad():
            kept.append(extra(w, v))
        optimizer.step()
    return [t.cpu() for t in kept], w.detach().cpu(), v.detach().cpu()


def sum_of_products(w, v):
    return torch.ones(24, 24, device=w.device).add_(w @ w.t())


def turned(w, v):
    before = w.t().contiguous()
    before.norm()
    return before


def flat(w, v):
    before = w.view(-1).clone()
    before.sum()
    return before


def of_both(w, v):
    return w.t() @ v + w.norm() * v.t()


@pytest.mark.parametrize("extra", [sum_of_products, turned, flat, of_both])
def test_what_reads_parameters_before_a_step(extra):
    assert_same(lambda device: train(device, extra), rtol=1e-4, atol=1e-4)
