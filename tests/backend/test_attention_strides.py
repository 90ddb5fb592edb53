"""Attention over operands whose last dimension is not the innermost in memory."""

import pytest
import torch
from differential import assert_same, normal


def attended(device, transposed):
    parts = [normal(2, 2, 5, 8, device=device, grad=True) for _ in range(3)]
    mask = normal(5, 5, device=device)
    given = [p.mT.contiguous().mT if n in transposed else p for n, p in enumerate(parts)]
    mask = mask.mT if 3 in transposed else mask
    y = torch.nn.functional.scaled_dot_product_attention(*given, attn_mask=mask)
    y.square().sum().backward()
    return [y.contiguous(), *(p.grad.contiguous() for p in parts)]


@pytest.mark.parametrize("transposed", [(), (0,), (1,), (2,), (0, 1, 2), (3,)], ids=str)
def test_transposed_operands(transposed):
    assert_same(lambda device: attended(device, transposed), rtol=1e-4, atol=1e-5)
