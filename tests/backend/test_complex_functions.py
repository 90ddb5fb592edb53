"""Functions of complex numbers that are computed as functions of their parts."""

import cmath
import math

import pytest
import torch
from differential import assert_same, normal

TYPES = pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
FUNCTIONS = {"sigmoid": torch.sigmoid, "expm1": torch.expm1, "sgn": torch.sgn, "abs": torch.abs}


def sigmoid(z: complex) -> complex:
    return 1 / (1 + cmath.exp(-z)) if z.real >= 0 else cmath.exp(z) / (1 + cmath.exp(z))


@TYPES
def test_sigmoid_does_not_overflow(dtype, device):
    numbers = [-200 + 1j, 200 - 3j, -95 + 2j, 89 + 1j, 0j, 1e-9 + 1e-9j, -2 + 3.1j, 1e-3 + 3.14159j]
    found = torch.tensor(numbers, dtype=dtype, device=device).sigmoid().cpu()
    exact = torch.tensor([sigmoid(z) for z in torch.tensor(numbers, dtype=dtype).tolist()])
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(
        found.to(exact.dtype), exact, rtol=8 * eps, atol=torch.finfo(dtype).tiny
    )


@TYPES
def test_sigmoid_of_infinities(dtype, device):
    inf, nan = math.inf, math.nan
    z = torch.tensor([complex(inf, 1), complex(inf, inf), complex(-inf, nan), complex(-inf, 2)])
    expected = torch.tensor([1, 1, 0, 0], dtype=dtype)
    found = z.to(dtype).to(device)
    torch.testing.assert_close(found.sigmoid().cpu(), expected)
    torch.testing.assert_close(torch._foreach_sigmoid([found])[0].cpu(), expected)
    assert torch.tensor(complex(1, inf), device=device).sigmoid().isnan()


@TYPES
def test_expm1_of_small_and_of_infinite_numbers(dtype, device):
    inf, nan = math.inf, math.nan
    small = torch.tensor([1e-12 + 1e-12j, -3e-20j, 0j], dtype=dtype, device=device)
    torch.testing.assert_close(small.expm1().cpu(), small.cpu(), rtol=1e-11, atol=0)
    z = torch.tensor([complex(-inf, 2), complex(-inf, nan), complex(inf, 0)], dtype=dtype)
    expected = torch.tensor([-1, -1, complex(inf, 0)], dtype=dtype)
    torch.testing.assert_close(z.to(device).expm1().cpu(), expected)
    unbounded = torch.tensor(complex(inf, nan), dtype=dtype, device=device).expm1().cpu()
    assert unbounded.real == inf
    assert unbounded.imag.isnan()


@TYPES
def test_magnitude_and_direction_at_the_ends(dtype, device):
    inf, nan, large = math.inf, math.nan, torch.finfo(dtype).max / 2
    numbers = [0j, complex(-0.0, 0), complex(inf, nan), complex(3, -inf), complex(nan, 1), 3 - 4j]
    z = torch.tensor([*numbers, complex(large, large)], dtype=dtype)
    found = z.to(device)
    expected = torch.tensor([0, 0, inf, inf, nan, 5, math.hypot(large, large)], dtype=z.real.dtype)
    torch.testing.assert_close(found.abs().cpu(), expected, equal_nan=True)
    torch.testing.assert_close(found[:2].sgn().cpu(), z[:2] * 0)
    torch.testing.assert_close(
        found[5:].sgn().cpu(), torch.tensor([0.6 - 0.8j, (1 + 1j) / 2**0.5]).to(dtype)
    )
    assert found[4].sgn().isnan()


def test_magnitudes_fuse_with_what_is_around_them(device):
    spectrum = torch.fft.rfft(torch.randn(3, 64).to(device))
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    ((spectrum.abs() ** 2).sum() + spectrum.sgn().real.sum()).item()
    assert torch.lazuli.metrics()["external_calls"] == {}


@TYPES
def test_a_power_of_two_scales_the_parts(dtype, device):
    z = torch.tensor([complex(math.inf, 1), complex(-3, 2)], dtype=dtype, device=device)
    e = torch.tensor([3, -1], device=device)
    for found in (z.ldexp(e), z.clone().ldexp_(e), torch.ldexp(z, e, out=torch.empty_like(z[:0]))):
        assert found.tolist() == [complex(math.inf, 8), complex(-1.5, 1)]
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ldexp(z, e, out=torch.empty(2, device=device))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "conjugated", "strided"])
def test_same_as_eager(name, layout):
    def compute(device):
        torch.manual_seed(0)
        z = torch.randn(4, 6, dtype=torch.complex64).to(device)
        z = {
            "contiguous": z,
            "transposed": z.t(),
            "conjugated": z.conj(),
            "strided": z[:, ::2],
        }[layout]
        z = z.detach().requires_grad_()
        y = FUNCTIONS[name](z)
        y.abs().sum().backward()
        return y.detach(), z.grad, torch.tensor(y.stride())

    assert_same(compute)


@pytest.mark.parametrize("bias", [(1, 4, 1, 2), (2,)])
def test_a_convolutions_errors_are_of_all_operands(bias):
    def message(device):
        x, w = (torch.ones(4, 1, n, dtype=torch.complex64, device=device) for n in (1, 2))
        with pytest.raises(RuntimeError) as error:
            torch.conv2d(x, w[None], torch.ones(bias, dtype=w.dtype, device=device))
        return str(error.value)

    assert message("lazuli") == message("cpu")


@pytest.mark.parametrize("unplanned", ["always", "never"])
def test_sizes_are_the_same_whoever_computes_them(device, unplanned):
    """A norm's derivative looks for the number whose size is the norm, perhaps in another part."""
    z = torch.randn(2000, dtype=torch.complex64) * torch.randn(2000).exp()
    with torch.lazuli.config.patch(unplanned=unplanned):
        found = z.to(device).abs().cpu()
    assert torch.equal(found, torch.hypot(z.real, z.imag))


MIXED = {
    "a real factor": lambda z, x: z * x,
    "a real divisor": lambda z, x: z / (1 + x * x),
    "a complex number": lambda z, x: 2j * x + z,
    "a constant": lambda z, x: x * z.detach(),
    "product": lambda z, x: z @ z.mT - x.sum(),
    "choice": lambda z, x: torch.where(x > 0, z, 2 * z),
    "pieces": lambda z, x: torch.cat([z, z.conj(), x.to(z.dtype)]),
    "size": lambda z, x: z.abs() * x,
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("wanted", ["both", "complex", "real"])
def test_gradients_of_complex_and_real_operands(name, wanted):
    def compute(device):
        z = torch.complex(*normal(2, 3, 4, device="cpu")).to(device)
        z.requires_grad_(wanted != "real")
        x = normal(3, 4, device=device, grad=wanted != "complex")
        y = MIXED[name](z, x)
        if not y.requires_grad:
            return y
        (torch.view_as_real(y) if y.is_complex() else y).square().sum().backward()
        return y.detach(), type(y.grad_fn).__name__, z.grad, x.grad

    assert_same(compute)


@TYPES
@pytest.mark.parametrize("n", [1, 7, 40, 130])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_of_matrices(n, batch, dtype):
    def step(device):
        parts = normal(6, *batch, n, n, device="cpu", dtype=torch.float64)
        x, y, z = (t.to(dtype).to(device) for t in torch.complex(parts[:3], parts[3:]))
        x.requires_grad_()
        results = []
        for _ in range(4):  # calls that are new run at once, later ones are recorded
            product = x @ y.mH - y @ x.conj()
            product = product + (
                torch.baddbmm(z, x, y, alpha=2j) if batch else torch.addmm(z, x, y.mT, beta=0.5)
            )
            results += [product, *torch.autograd.grad((product * z).real.sum(), [x])]
        return results

    assert_same(step, rtol=1e-4, atol=1e-3)
