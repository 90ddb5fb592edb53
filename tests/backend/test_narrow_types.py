"""bfloat16 and float16: each operator computes in float32 and rounds, inside a fused kernel too.

Operators with one right answer are compared bit for bit.
"""

import math

import pytest
import torch
from differential import assert_same, normal

NARROW = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])


def exactly_same(function):
    return assert_same(function, rtol=0, atol=0)


CHAINS = {
    "products": lambda a, b, c: a * b * c * a,
    "sums": lambda a, b, c: a + b + c - a - b,
    "horner": lambda a, b, c: ((a * b + c) * b + a) * b + c,
    "quotients": lambda a, b, c: (a / b + c / a) / (b + 1),
    "roots": lambda a, b, c: (a * b).abs().sqrt() + (b * c).square(),
    "numbers": lambda a, b, c: (a * 0.1 + 0.7) * 3.3 - b / 7.7,
    "alpha": lambda a, b, c: torch.add(a, b, alpha=0.3) + torch.sub(b, c, alpha=1.7),
    "fused by eager": lambda a, b, c: torch.addcmul(a, b, c, value=0.3) * a,
    "extrema": lambda a, b, c: (
        torch.maximum(a * b, c).clamp(-1, 1) + torch.minimum(b * c, a).relu()
    ),
    "selection": lambda a, b, c: torch.where(a * b > c, a * c, b + c) * a,
    "comparison": lambda a, b, c: (a + b - b == a) | (a * b < b * c),
    "remainder": lambda a, b, c: (a * 3) % (b.abs() + 1) + torch.fmod(c * 3, a.abs() + 1),
    "truncated quotient": lambda a, b, c: (
        torch.div(a * 40, b, rounding_mode="trunc")
        + torch.div(c * 40, 3.3, rounding_mode="trunc")
        + torch.div(torch.tensor(3.3), b, rounding_mode="trunc")
    ),
    "discrete": lambda a, b, c: (a * 7).round() + (b * 7).floor() * (c * 7).trunc(),
    "broadcast": lambda a, b, c: (a[:1] + b[:, :1]) * (c[:1] * 0.3) + a,
    "largest": lambda a, b, c: (a * b).amax(1) * 0.3 + (b + c).amin(0)[:8],
}


@NARROW
@pytest.mark.parametrize("name", CHAINS)
def test_chain(name, dtype):
    def compute(device):
        # Whole vectors: what is left over goes another way in eager, which rounds once more.
        a, b, c = (normal(8, 64, device=device, dtype=dtype) for _ in range(3))
        return CHAINS[name](a, b, c)

    exactly_same(compute)


@NARROW
def test_there_and_back(dtype):
    def compute(device):
        x = torch.cat([normal(1000, device="cpu") * 10.0**e for e in range(-45, 38)])
        x = x.to(device)
        return x.to(dtype).float(), x.double().to(dtype).double(), (x.to(dtype) == x)

    exactly_same(compute)


def test_between_the_narrow_types():
    def compute(device):
        x = normal(1000, device=device) * 300
        return x.bfloat16().half().float(), x.half().bfloat16().float(), (x * 300).half().bfloat16()

    exactly_same(compute)


@NARROW
def test_integers_become_narrow(dtype):
    def compute(device):
        x = torch.arange(-3000, 3000, 7).to(device)
        return x.to(dtype).float(), (x.to(dtype) + 1) * 3, (x > 0).to(dtype) * 0.3

    exactly_same(compute)


@NARROW
def test_special_values(dtype):
    def compute(device):
        bits = torch.tensor([0x7FFFFFFF, -1, 0x7F800001, 0x7F7FFFFF, 0x477FF000, 0x477FEFFF, 1, 0])
        x = bits.to(torch.int32).view(torch.float32).to(device)
        y = x.to(dtype)
        return y.float(), (y + y).float(), (y * 0.5).float() + 1, (y - y).float()

    exactly_same(compute)


@NARROW
def test_gradients_of_a_chain(dtype):
    def differentiate(device):
        a = normal(5, 33, device=device, dtype=dtype, grad=True)
        b = normal(5, 33, device=device, dtype=dtype, grad=True)
        y = (a * b + a) * b
        y.backward(normal(5, 33, device=device, dtype=dtype))
        return y, a.grad, b.grad

    exactly_same(differentiate)


@NARROW
def test_an_optimizer_step(dtype):
    def train(device):
        p = normal(128, device=device, dtype=dtype, grad=True)
        optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01)
        for _ in range(4):
            optimizer.zero_grad()
            p.grad = p.detach() * 0.3 + 1
            optimizer.step()
        return p.detach()

    exactly_same(train)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 2, 3), (2, 2, 2, 3)])
def test_a_weight_saturated_for_float16(shape, device):
    """A new tensor, whatever the rank; torch's kernel writes over a matrix."""
    x = torch.linspace(-1e5, 1e5, math.prod(shape)).reshape(shape)
    weight = x.to(device)
    found = torch._saturate_weight_to_fp16(weight)
    assert torch.equal(found.cpu(), x.clamp(-65504, 65504))
    assert torch.equal(weight.cpu(), x)


@pytest.mark.parametrize("scale", [1000, 1e-3, 1e-4])
@pytest.mark.parametrize("dim", [None, 1])
def test_deviations_whose_squares_have_no_float16(scale, dim):
    x = (torch.randn(8, 500) * scale).half()

    def run(x):
        leaf = x.detach().requires_grad_()
        std = leaf.std(dim)
        std.sum().backward()
        return std.detach().cpu(), leaf.grad.cpu()

    for actual, expected in zip(run(x.to("lazuli")), run(x), strict=True):
        assert expected.isfinite().all()
        torch.testing.assert_close(actual, expected)
