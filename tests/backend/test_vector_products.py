"""Products with vectors: recorded as matrix products and sums, not as calls of eager's kernels."""

import pytest
import torch
from differential import assert_same, normal

TYPES = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)
PRODUCTS = {
    "dot": (torch.dot, (7,), (7,)),
    "dot, empty": (torch.dot, (0,), (0,)),
    "dot, strided": (lambda a, b: a.dot(b[::2]), (3,), (6,)),
    "vdot": (torch.vdot, (7,), (7,)),
    "mv": (torch.mv, (3, 5), (5,)),
    "mv, transposed": (lambda a, v: a.t().mv(v), (5, 3), (5,)),
    "mv, no rows": (torch.mv, (0, 5), (5,)),
    "mv, no columns": (torch.mv, (3, 0), (0,)),
    "vector first": (lambda v, a: v @ a, (5,), (5, 3)),
    "addmv": (torch.addmv, (3,), (3, 5), (5,)),
    "addmv, one bias": (torch.addmv, (1,), (3, 5), (5,)),
    "addmv, factors": (
        lambda b, a, v: torch.addmv(b, a, v, beta=0.5, alpha=2),
        (3,),
        (3, 5),
        (5,),
    ),
    "addmv, no bias": (lambda b, a, v: torch.addmv(b, a, v, beta=0), (3,), (3, 5), (5,)),
}


@TYPES
@pytest.mark.parametrize("name", PRODUCTS)
def test_values_and_gradients(name, dtype, counters):
    function, *shapes = PRODUCTS[name]

    def differentiate(device):
        operands = [normal(*shape, device=device, dtype=dtype, grad=True) for shape in shapes]
        y = function(*operands)
        pulled = torch.autograd.grad(y, operands, torch.ones_like(y), create_graph=True)
        twice = torch.autograd.grad(sum(g.sum() for g in pulled), operands, allow_unused=True)
        return y, pulled, twice

    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 4e-2)
    assert_same(differentiate, ignore=("stride",), rtol=tolerance, atol=tolerance)
    assert counters()["external_calls"] == {}


def test_into_a_tensor(counters):
    def compute(device):
        a, v = normal(3, 5, device=device), normal(5, device=device)
        out, sums = torch.zeros(0, device=device), torch.ones(6, device=device)[::2]
        torch.mv(a, v, out=out)
        sums.addmv_(a, v, beta=2)
        return out, sums, torch.addmv(out, a, v, out=torch.empty(3, device=device))

    assert_same(compute)
    assert counters()["external_calls"] == {}
