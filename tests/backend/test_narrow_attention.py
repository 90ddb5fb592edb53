"""Attention of a few queries in 16 bits, which is computed in float32 on the CPU."""

import pytest
import torch
from differential import assert_same, normal
from torch.nn.functional import scaled_dot_product_attention

TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 2e-3}


def attended(device, dtype, queries=1, heads=3, groups=3, mask=None, **options):
    q = normal(2, heads, queries, 16, device=device, dtype=dtype)
    k, v = (normal(2, groups, 70, 16, device=device, dtype=dtype) for _ in range(2))
    m = None if mask is None else mask(queries, dtype).to(device)
    return scaled_dot_product_attention(q, k, v, attn_mask=m, **options)


def additive(queries, dtype):
    return torch.randn(queries, 70).to(dtype)


def boolean(queries, dtype):
    return torch.rand(2, 1, queries, 70) > 0.4


CASES = {
    "one query": {},
    "four queries": {"queries": 4},
    "causal": {"queries": 3, "is_causal": True},
    "scale": {"scale": 0.3},
    "additive": {"mask": additive},
    "boolean": {"mask": boolean, "queries": 2},
    "shared keys": {"heads": 6, "groups": 2, "enable_gqa": True},
}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values(case, dtype, counters):
    tolerance = TOLERANCES[dtype]
    assert_same(lambda device: attended(device, dtype, **case), rtol=tolerance, atol=tolerance)
    assert not counters()["external_calls"]


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_layouts(dtype, queries):
    """Heads in memory before or behind positions; results lie as eager's."""

    def run(device):
        q = normal(2, queries, 3, 16, device=device, dtype=dtype).transpose(1, 2)
        k = normal(2, 9, 3, 16, device=device, dtype=dtype).transpose(1, 2)
        v = normal(2, 3, 9, 16, device=device, dtype=dtype)
        return scaled_dot_product_attention(q, k, v), scaled_dot_product_attention(q, v, k)

    assert_same(run, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


def test_gradients_are_those_of_torchs_kernel():
    def run(device):
        parts = [
            normal(1, 2, length, 8, device=device, dtype=torch.bfloat16, grad=True)
            for length in (2, 9, 9)
        ]
        y = scaled_dot_product_attention(*parts)
        y.float().sum().backward()
        return [y, *(p.grad for p in parts)]

    assert_same(run, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("unplanned", ["always", "never", "auto"])
def test_a_growing_cache(unplanned):
    def run(device):
        keys, seen = normal(1, 2, 3, 8, device=device, dtype=torch.bfloat16), []
        with torch.inference_mode(), torch.lazuli.config.patch(unplanned=unplanned):
            for _ in range(10):
                q, new = (normal(1, 2, 1, 8, device=device).bfloat16() for _ in range(2))
                keys = torch.cat([keys, new], 2)
                seen.append(scaled_dot_product_attention(q, keys, keys).sum().item())
        return torch.tensor(seen)

    assert_same(run, rtol=3e-2, atol=3e-2)
