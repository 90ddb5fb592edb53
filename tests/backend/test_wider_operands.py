"""Operators that compute in a wider type, or range, than their kernel on the host would."""

import math

import pytest
import torch
from differential import assert_same

NARROW = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_gcd_of_the_least_integer(dtype, device):
    least = torch.iinfo(dtype).min
    a = torch.tensor([least, least, least, 6, 0], dtype=dtype, device=device)
    b = torch.tensor([31, -31, 48, -4, 0], dtype=dtype, device=device)
    expected = [math.gcd(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    out = torch.empty(0, dtype=dtype, device=device)
    for found in (torch.gcd(a, b), torch.gcd(a, b, out=out), out, a.clone().gcd_(b)):
        assert found.dtype == dtype
        assert found.tolist() == expected


def test_gcd_of_other_types():
    def compute(device):
        a, b = (torch.tensor(v, device=device) for v in ([12, 18, -7], [[8], [27]]))
        small, out = a.to(torch.int8), torch.empty(2, 3, dtype=torch.int64, device=device)
        return (
            a.gcd(b),
            small.gcd(b),
            small.gcd(small[:1]),
            torch.gcd(small, b, out=out),
            a.gcd_(b[0]),
        )

    assert_same(compute)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ldexp_by_exponents_of_64_bits(dtype, device):
    x = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0, 3.0], dtype=dtype, device=device)
    e = torch.tensor([2**32, 2**40, -(2**32), -(2**63), 3, 2], device=device)
    expected = torch.tensor([math.inf, -math.inf, 0.0, -0.0, 0.0, 12.0], dtype=dtype)
    out = torch.empty(0, dtype=dtype, device=device)
    for found in (torch.ldexp(x, e), torch.ldexp(x, e, out=out), x.clone().ldexp_(e)):
        assert torch.equal(found.cpu(), expected)
        assert torch.equal(found.cpu().signbit(), expected.signbit())


@NARROW
def test_the_exponential_of_a_matrix_is_rounded_once(dtype, device):
    x = torch.randn(4, 4).mul(2).to(dtype)
    expected = torch.linalg.matrix_exp(x.double())
    found = torch.linalg.matrix_exp(x.to(device)).cpu()
    torch.testing.assert_close(found, expected.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-3)


@NARROW
def test_histogram_counts_are_rounded_once(dtype, device):
    x = torch.cat([torch.full((4062,), 0.5), torch.full((35,), 2.0)]).to(dtype).to(device)
    found = torch.histc(x, bins=2, min=0, max=1).cpu()
    assert found.dtype == dtype
    assert torch.equal(found, torch.tensor([0.0, 4062.0]).to(dtype))
    own_range = torch.histc(x, bins=2).cpu()
    assert torch.equal(own_range, torch.tensor([4062.0, 35.0]).to(dtype))


def test_a_pole_that_is_false(device):
    found = torch.polygamma(1, torch.tensor([False, True], device=device)).cpu()
    torch.testing.assert_close(found, torch.tensor([math.inf, math.pi**2 / 6]))


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.polygamma_(1),
        lambda x: torch.polygamma(1, x, out=x),
        lambda x: torch.special.polygamma(1, x.float(), out=x),
    ],
)
def test_polygamma_is_not_written_into_integers(write, device):
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        write(torch.arange(3, device=device))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.float32, torch.float64])
def test_poles_of_the_first_polygamma(dtype, device):
    x = torch.tensor([0, -1, -2, -31, 1, 4], dtype=dtype)
    if dtype.is_floating_point:
        x = torch.cat([x, torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype)])
    out = torch.empty(0, dtype=dtype if dtype.is_floating_point else torch.float32, device=device)
    expected = torch.polygamma(1, x)
    expected[:4] = math.inf
    for found in (torch.polygamma(1, x.to(device)), torch.polygamma(1, x.to(device), out=out)):
        torch.testing.assert_close(found.cpu(), expected, equal_nan=True)


@NARROW
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_of_an_image_are_computed_at_full_precision(dtype, mode, padding, device):
    """A grid in 16 bits is what it is; eager's kernel would also round the place that it means."""
    image = torch.randn(1, 2, 300, 200, dtype=dtype)
    grid = torch.rand(1, 40, 30, 2).mul(2.2).sub(1.1).to(dtype)

    def sampled(image, grid):
        image, grid = image.requires_grad_(), grid.requires_grad_()
        y = torch.nn.functional.grid_sample(image, grid, mode, padding, align_corners=False)
        return y, *torch.autograd.grad(y.float().square().sum(), (image, grid))

    expected = sampled(image.double(), grid.double())
    found = sampled(image.to(device), grid.to(device))
    for f, e in zip(found, expected, strict=True):
        assert f.dtype == dtype
        torch.testing.assert_close(
            f.detach().cpu(), e.detach().to(dtype), rtol=0.02, atol=e.abs().max().item() * 0.01
        )


@NARROW
def test_places_of_a_volume_are_computed_at_full_precision(dtype, device):
    volume = torch.randn(2, 1, 40, 50, 60, dtype=dtype)
    grid = torch.rand(2, 4, 5, 6, 3).mul(2).sub(1).to(dtype)
    expected = torch.nn.functional.grid_sample(volume.float(), grid.float(), align_corners=True)
    found = torch.nn.functional.grid_sample(volume.to(device), grid.to(device), align_corners=True)
    torch.testing.assert_close(found.cpu(), expected.to(dtype))
    only = grid.to(device).requires_grad_()  # the volume needs no gradient
    torch.nn.functional.grid_sample(volume.to(device), only, align_corners=True).sum().backward()
    assert only.grad.dtype == dtype
    assert only.grad.isfinite().all()
