"""Kernels of torch that write their operand's memory at once, because their shapes need numbers."""

import torch
from differential import assert_same, normal


def write(into, numbers):
    torch.masked_select(numbers, torch.ones_like(numbers, dtype=torch.bool), out=into)


def test_copies_keep_their_numbers():
    def change(device):
        x = normal(5, device=device)
        y = x.clone()
        z = y.clone()
        write(y, torch.arange(5.0).to(device))
        return x, y, z

    assert_same(change)


def test_what_backward_reads_keeps_its_numbers():
    def change(device):
        a = normal(5, device=device, grad=True)
        b = a.detach().clone()
        total = (a * b.clone()).sum()
        write(b, torch.arange(5.0).to(device))
        total.backward()
        return a.grad, b

    assert_same(change)


def test_a_weight_that_a_product_has_packed():
    def change(device):
        x, weight = normal(4, 64, device=device), normal(64, 64, device=device)
        sums = []
        for _ in range(8):
            sums.append((x @ weight).sum().item())
        write(weight.view(-1), torch.ones(64 * 64).to(device))
        sums.append((x @ weight).sum().item())
        return torch.tensor(sums)

    assert_same(change, rtol=1e-3, atol=1e-3)
