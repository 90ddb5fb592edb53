"""Arithmetic of complex numbers, which is recorded as rows over their parts."""

import math

import pytest
import torch
from differential import assert_no_external_call, assert_same, assert_same_error, both, normal

TYPES = pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
BINARY = {
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "conj_mul": lambda x, y: x.conj() * y,
    "mul_conj": lambda x, y: (x * y.conj()).conj() - y,
    "real_mul": lambda x, y: x.real * y,
    "mul_imag": lambda x, y: x * y.imag,
    "div_real": lambda x, y: x / (y.real.abs() + 1),
    "real_div": lambda x, y: x.real / y,
    "polar": lambda x, y: torch.polar(x.abs(), y.real),
    "row": lambda x, y: x * y[0],
    "one": lambda x, y: x / y[0, 0],
    "transposed": lambda x, y: x.t() * y.t(),
    "mixed": lambda x, y: x.t() * y,
    "strided": lambda x, y: x[:, :6:2] * y[:, 1::2],
    "shared": lambda x, y: x * x + y / (x * x.conj() + 1),
}
UNARY = {
    "complex_number": lambda x: (2 + 3j) * x - x / (1 - 2j),
    "real_number": lambda x: (x * 2.5 + 3 / x) / 4,
    "integer": lambda x: x * 2 / 3,
    "zero_dim": lambda x: x * torch.tensor(1.5, device=x.device) * torch.tensor(2j),
    "reciprocal": torch.reciprocal,
    "exp": torch.exp,
    "neg": lambda x: -x,
    "abs": torch.abs,
    "sgn": torch.sgn,
    "conj_physical": torch.conj_physical,
}
TOLERANCE = {torch.complex64: 1e-5, torch.complex128: 1e-12}


def numbers(*shape, device, dtype, grad=False):
    x = torch.complex(*normal(2, *shape, device="cpu", dtype=torch.float64)).to(dtype)
    return x.to(device).requires_grad_(grad)


def close(dtype):
    return {"rtol": 10 * TOLERANCE[dtype], "atol": TOLERANCE[dtype]}


@TYPES
@pytest.mark.parametrize("name", BINARY)
def test_of_two(name, dtype):
    def step(device):
        x, y = numbers(2, 7, 7, device="cpu", dtype=dtype).to(device).requires_grad_()
        results = []
        for _ in range(3):  # without a plan, then with one
            z = BINARY[name](x, y)
            z = z.resolve_conj()
            results += [z, *torch.autograd.grad(z.abs().square().sum(), [x, y], allow_unused=True)]
        return [r for r in results if r is not None]

    assert_same(step, **close(dtype))


@TYPES
@pytest.mark.parametrize("name", UNARY)
def test_of_one(name, dtype):
    def step(device):
        x = numbers(5, 9, device=device, dtype=dtype, grad=True)
        results = []
        for _ in range(3):
            z = UNARY[name](x)
            results += [z, *torch.autograd.grad((z * z.conj()).real.sum(), [x])]
        return results

    assert_same(step, **close(dtype))


@TYPES
@pytest.mark.parametrize("name", ["mul", "div", "shared", "mul_conj"])
def test_second_derivatives(name, dtype):
    def step(device):
        x, y = numbers(2, 4, 4, device="cpu", dtype=dtype).to(device).requires_grad_()
        loss = BINARY[name](x, y).abs().square().sum()
        first = torch.autograd.grad(loss, [x, y], create_graph=True)
        return torch.autograd.grad(sum(g.abs().square().sum() for g in first), [x, y])

    assert_same(step, **close(dtype))


@TYPES
@pytest.mark.parametrize("planned", [False, True])
def test_infinities_and_nan(dtype, planned):
    ends = [0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan, 1e30, 1e-30]

    def step(device):
        z = torch.tensor([complex(a, b) for a in ends for b in ends], dtype=dtype).to(device)
        a, b = z[:, None], z[None]
        results = []
        for _ in range(4 if planned else 1):
            results = [
                a * b,
                a / b,
                z.exp(),
                1 / z,
                z * 2,
                z / 2,
                z * 2j,
                z.abs(),
                z.sgn(),
                z.conj(),
            ]
            results = [r.resolve_conj() + 0 for r in results]
            [r.cpu() for r in results]
        return results

    # The part of a quotient that cancels is as large as the other one's rounding: eager's is fused.
    expected, actual = both(step)
    for mine, eagers in zip(actual, expected, strict=True):
        mine, eagers = torch.view_as_real(mine.cpu() + 0j), torch.view_as_real(eagers + 0j)
        size = eagers.nan_to_num(0, 0, 0).abs().amax(-1, keepdim=True) * TOLERANCE[dtype]
        alike = (mine == eagers) | (mine.isnan() & eagers.isnan()) | ((mine - eagers).abs() <= size)
        assert alike.all()


@TYPES
def test_in_place_and_out(dtype):
    def step(device):
        x, y = numbers(2, 6, 6, device="cpu", dtype=dtype).to(device)
        real = y.real.clone()
        a, b, c = x.clone(), x.t().clone().t(), torch.zeros(12, 12, dtype=dtype, device=device)
        c[::2, 1::2] = x
        a.mul_(y).div_(2 + 1j).neg_().mul_(real).mul_(3)
        b.t().mul_(y).exp_()
        c[::2, 1::2].mul_(y).reciprocal_()
        c[1::2, ::2].copy_(y).sgn_().conj_physical_()
        out, strided, size = (
            torch.empty(0, dtype=dtype, device=device),
            torch.empty(6, 12, dtype=dtype, device=device)[:, ::2],
            torch.empty(6, 6, dtype=real.dtype, device=device),
        )
        torch.mul(x, y, out=out)
        torch.div(x, real, out=strided)
        torch.abs(y, out=size)
        versions = [t._version for t in (a, b, c)]
        return a, b, c, out, strided, size, versions

    assert_same(step, **close(dtype))


def test_types():
    def step(device):
        z, w = (numbers(3, 4, device=device, dtype=t) for t in (torch.complex64, torch.complex128))
        wide = torch.arange(4, dtype=torch.float64, device=device)
        whole = torch.arange(4, device=device)
        into = torch.empty(3, 4, dtype=torch.complex128, device=device)
        torch.mul(z, z, out=into)
        return (
            z * w,
            z * wide,
            z / (whole + 1),
            z * (whole > 1),
            whole * 2j,
            wide / w[0],
            into,
            torch.tensor(2j, device=device) * z,
            torch.tensor(3.0, dtype=torch.float64, device=device) * z,
        )

    assert_same(step)


@pytest.mark.parametrize(
    "function", [torch.sign, torch.floor, lambda z: z.mul_(z.new_ones(2, 3, 4))]
)
def test_what_eager_refuses(function):
    assert_same_error(
        lambda d: function(numbers(3, 4, device=d, dtype=torch.complex64)), RuntimeError
    )


def test_a_real_tensor_takes_no_complex_product():
    def write(device):
        z = numbers(3, device=device, dtype=torch.complex64)
        return torch.ones(3, device=device).mul_(z)

    assert_same_error(write, RuntimeError)


def test_mapped_and_differentiated_by_functions():
    def step(device):
        x, y = numbers(2, 5, 3, device="cpu", dtype=torch.complex64).to(device)
        tangent = torch.func.jvp(lambda a: (a * y / (a + 2)).abs(), (x,), (y,))
        mapped = torch.vmap(lambda a, b: a * b.conj() + a.exp(), in_dims=(0, 1))(
            x, y.t().contiguous()
        )
        return [*tangent, mapped]

    assert_same(step, rtol=1e-4, atol=1e-5)


def test_no_call_of_torchs_kernels():
    def step(device):
        x, y = numbers(2, 8, 8, device="cpu", dtype=torch.complex64).to(device).requires_grad_()
        z = x * y.conj() / 2 + torch.polar(x.abs(), y.real) * (1j * y).exp()
        return torch.autograd.grad(z.abs().square().sum(), [x, y])

    assert_no_external_call(step)
    assert_same(step, rtol=1e-4, atol=1e-4)
