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


def heads_last(*shape, device, dtype):
    batch, heads, rows, columns = shape
    return normal(batch, rows, heads, columns, device=device, dtype=dtype).transpose(1, 2)


def every_second(*shape, device, dtype):
    return normal(*shape, 2, device=device, dtype=dtype)[..., 0]


CASES = {
    "queries": {"q": heads_last},
    "shared heads": {"q": heads_last, "groups": 1, "enable_gqa": True},
    "causal, shared heads": {"q": heads_last, "groups": 1, "enable_gqa": True, "is_causal": True},
    "one column, every second number": {"q": heads_last, "k": every_second, "width": 1},
    "every second number": {"q": heads_last, "v": every_second},
    "a mask of every second number": {"q": heads_last, "mask": every_second},
    "a boolean mask": {"q": heads_last, "mask": lambda *s, **how: heads_last(*s, **how) > 0},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_results_lie_as_those_of_the_kernel_that_eager_chooses(case, dtype):
    case = dict(CASES[case])
    makers = [case.pop(name, normal) for name in "qkv"]
    groups, width, mask = case.pop("groups", 2), case.pop("width", 4), case.pop("mask", None)

    def program(device):
        how = {"device": device, "dtype": dtype}
        heads = (2, groups, groups)
        q, k, v = (make(2, n, 3, width, **how) for make, n in zip(makers, heads, strict=True))
        m = None if mask is None else mask(1, 1, 3, 3, **how)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m, **case)

    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    assert_same(program, **tolerance)


def test_the_backend_that_a_program_asks_for():
    def program(device):
        q = heads_last(2, 2, 3, 4, device=device, dtype=torch.float32)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    assert_same(program)
