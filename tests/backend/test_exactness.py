"""Ops of bfloat16, and long sums of float32, are as exact as eager's, measured against float64.

Agreement with eager within a tolerance would not notice an error that is twice eager's. What is
compared here is the root of the mean square error over many numbers, and the part of it that all
numbers share: rounding is random, so an error along the exact result is a mistake.
"""

import pytest
import torch
from torch_lazuli.operators import ops

F = torch.nn.functional
N, D = 384, 96
SLACK = 1.1


def attention(q, k, v):
    q, k, v = (x.view(6, 64, 4, 24).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def rms_norm(x, w):
    wide = x.float() if x.dtype == torch.bfloat16 else x
    return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def images(x):
    return x.view(6, 24, 16, 16)


def once_or_twice(x):
    """x times 1 or 2, with a reader that saves nothing and walks in the order of its own."""
    return (torch.arange(x.numel(), device=x.device) % 2 + 1).view(x.shape).to(x.dtype) * x


def two_readers(x, w, v):
    y = x @ w.t()
    return F.gelu(y) * (y @ v)


# The function, and its operands' shapes.
OPS = {
    "add a row": (lambda x, b: x + b, [(N, D), (D,)]),
    "multiply by a column": (lambda x, b: x * b, [(N, D), (N, 1)]),
    "divide": (lambda x, y: x / (2 + y.abs()), [(N, D), (N, D)]),
    "exp": (torch.exp, [(N, D)]),
    "tanh": (torch.tanh, [(N, D)]),
    "sigmoid": (torch.sigmoid, [(N, D)]),
    "silu": (F.silu, [(N, D)]),
    "gelu": (F.gelu, [(N, D)]),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), [(N, D)]),
    "power": (lambda x: x.pow(3), [(N, D)]),
    "sum of rows": (lambda x: x.sum(0), [(N, D)]),
    "mean": (lambda x: x.mean(-1), [(N, D)]),
    "softmax": (lambda x: F.softmax(x, -1), [(N, D)]),
    "log_softmax": (lambda x: F.log_softmax(x, -1), [(N, D)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (D,), w, b), [(N, D), (D,), (D,)]),
    "rms_norm": (rms_norm, [(N, D), (D,)]),
    "matmul": (lambda x, y: x @ y, [(N, D), (D, N)]),
    "linear": (F.linear, [(N, D), (N, D), (N,)]),
    "linear and gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), [(N, D), (N, D), (N,)]),
    "one row": (F.linear, [(1, D), (4 * N, D), (4 * N,)]),
    "linear by heads": (
        lambda x, w, b: once_or_twice(F.linear(x, w, b).view(6, 64, 4, 24).transpose(1, 2)),
        [(N, D), (D, D), (D,)],
    ),
    "patches": (
        lambda x, w, b: once_or_twice(F.conv2d(images(x), w.view(24, 24, 3, 3), b).flatten(2).mT),
        [(N, D), (54, D), (24,)],
    ),
    "residual": (lambda x, w, b: x + F.linear(x, w, b), [(N, D), (D, D), (D,)]),
    "two readers": (two_readers, [(N, D), (D, D), (D, D)]),
    "linear of a vector": (lambda x, w, b: F.linear(x, w, b), [(D,), (4 * N, D), (4 * N,)]),
    "product that is turned": (lambda x, w, b: (x @ w.t()).t() + b, [(N, D), (54, D), (N,)]),
    "batched products": (
        lambda x, y, b: torch.baddbmm(b, x.view(6, 64, D), y.view(6, 64, D).mT),
        [(N, D), (N, D), (6, 64, 64)],
    ),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), [(N, D), (N, D)]),
    "log_sigmoid": (F.logsigmoid, [(N, D)]),
    "embedding": (
        lambda w: F.embedding(torch.arange(N * 8, device=w.device) % 61, w),
        [(D, D)],
    ),
    "index_add": (
        lambda x, y: x.index_add(0, torch.arange(N, device=x.device) % 5, y),
        [(5, D), (N, D)],
    ),
    "scatter_add": (
        lambda x, y: x.scatter_add(0, (torch.arange(N * D, device=x.device) % 5).view(N, D), y),
        [(5, D), (N, D)],
    ),
    "attention": (attention, [(N, D), (N, D), (N, D)]),
    "conv2d": (
        lambda x, w, b: F.conv2d(images(x), w.view(24, 24, 3, 3), b),
        [(N, D), (54, D), (24,)],
    ),
    "transposed conv2d": (
        lambda x, w, b: F.conv_transpose2d(images(x), w.view(24, 24, 3, 3), b),
        [(N, D), (54, D), (24,)],
    ),
}


# Those that have a bias, with which a product is rounded but once. Autocast casts the bias first.
BIASED = (
    "linear",
    "linear and gelu",
    "linear by heads",
    "one row",
    "residual",
    "conv2d",
    "patches",
    "transposed conv2d",
)


def compute(op, device, dtype, autocast=False):
    """The result and the gradients of all operands, which are bfloat16 numbers for every dtype."""
    function, shapes = OPS[op]
    random = torch.Generator().manual_seed(0)

    def draw(shape, dtype=dtype):
        return torch.randn(shape, generator=random).bfloat16().to(dtype).to(device)

    operands = [draw(shape).requires_grad_() for shape in shapes]
    with torch.autocast(device, torch.bfloat16, enabled=autocast):
        y = function(*operands)
    gradients = torch.autograd.grad(y, operands, draw(y.shape, y.dtype))
    return [t.detach().cpu().double() for t in (y, *gradients)]


def check(op, dtype, autocast):
    exact = compute(op, "cpu", torch.float64)
    eager = compute(op, ops._backing().type, dtype, autocast)
    ours = compute(op, "lazuli", dtype, autocast)
    for where, e, r, o in zip(("y", "gx", "gw", "gb"), exact, eager, ours, strict=False):
        eager_error, error = (r - e).norm(), (o - e).norm()
        most = SLACK * max(eager_error, (e.bfloat16().double() - e).norm())
        assert error <= most, (
            f"{where}: {error / e.norm():.2e}, eager's {eager_error / e.norm():.2e}"
        )
        # Of n roundings at random only 1 / sqrt(n) stays in the sum along the exact result.
        along, eager_along = (abs((t - e).flatten() @ e.flatten()) / e.norm() for t in (o, r))
        assert along <= max(5 * most / e.numel() ** 0.5, SLACK * eager_along), where


@pytest.mark.usefixtures("with_and_without_plans")
@pytest.mark.parametrize("op", OPS)
def test_errors_are_no_larger_than_eagers(op):
    check(op, torch.bfloat16, autocast=False)


@pytest.mark.usefixtures("with_and_without_plans")
@pytest.mark.parametrize("op", BIASED)
def test_a_bias_costs_no_rounding_under_autocast(op):
    check(op, torch.float32, autocast=True)


# The shape, what is summed over, and what of x is summed: loops of little work and of much differ.
SUMS = {
    "of 300 rows": ((300, 48), 0, lambda x: x),
    "of many rows": ((1 << 19, 8), 0, lambda x: x),
    "of two dimensions": ((64, 1000, 24), (0, 1), lambda x: x),
    "of heavy rows": ((1 << 17, 24), 0, lambda x: torch.exp(x) * torch.tanh(x) / torch.cosh(x)),
    "along rows": ((8, 1 << 19), 1, lambda x: x),
    "of all": ((1 << 21,), 0, lambda x: x),
}


@pytest.mark.parametrize("name", SUMS)
def test_rounding_of_long_sums_grows_no_faster_than_eagers(name):
    shape, dim, function = SUMS[name]
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    exact = function(x.double()).sum(dim)
    eager, ours = (
        (function(x.to(device)).sum(dim).cpu().double() - exact).norm() / exact.norm()
        for device in (ops._backing().type, "lazuli")
    )
    unit = torch.finfo(torch.float32).eps / 2
    assert ours <= 2 * max(eager, unit), f"{ours:.1e}, eager's {eager:.1e}"
