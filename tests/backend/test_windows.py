"""Kaiser's window, which is finite and exact however steep it is."""

import math

import pytest
import torch
from differential import assert_same

DTYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])


def scaled(x):
    """exp(-x) i0(x), from the terms of its power series and their logarithms."""
    terms = (2 * k * math.log(x / 2) - 2 * math.lgamma(k + 1) - x for k in range(400))
    return math.fsum(map(math.exp, terms)) if x else 1.0


def kaiser(length, beta):
    middle = (length - 1) / 2
    roots = [math.sqrt(1 - ((i - middle) / middle) ** 2) for i in range(length)]
    return [math.exp(beta * (s - 1)) * scaled(beta * s) / scaled(beta) for s in roots]


@pytest.mark.parametrize("beta", [0.5, 12.0, 100.0, 300.0])
def test_a_steep_window_is_that_of_the_series(beta, device):
    found = torch.kaiser_window(
        9, periodic=False, beta=beta, dtype=torch.float64, device=device
    ).cpu()
    expected = torch.tensor(kaiser(9, beta), dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


@DTYPES
def test_narrow_types(dtype, device):
    for beta in (12.0, 100.0):
        found = torch.kaiser_window(9, periodic=False, beta=beta, dtype=dtype, device=device)
        expected = torch.tensor(kaiser(9, beta), dtype=torch.float64).to(dtype)
        torch.testing.assert_close(found.cpu(), expected)


def test_a_periodic_window_is_a_longer_one_without_its_end(device):
    one, other = (torch.kaiser_window(n, p, 7.0, device=device) for n, p in ((8, True), (9, False)))
    assert torch.equal(one, other[:8])


@pytest.mark.parametrize("beta", [math.inf, -math.inf])
@pytest.mark.parametrize("length", [8, 9])
def test_an_infinite_steepness(beta, length, device):
    found = torch.kaiser_window(length, False, beta, device=device).cpu()
    middle = [i for i in range(length) if 2 * i == length - 1]
    assert found.nonzero().flatten().tolist() == middle
    assert found[middle].tolist() == [1.0] * len(middle)


def test_complex_windows_are_real(device):
    real = torch.kaiser_window(9, False, 100.0, device=device)
    found = torch.kaiser_window(9, False, 100.0, dtype=torch.complex64, device=device)
    assert torch.equal(found, real.to(torch.complex64))


def test_as_eager():
    def windows(device):
        out = torch.empty(0, device=device)
        torch.ops.aten.kaiser_window.beta_out(6, True, 3.0, out=out)
        given = [
            (0,),
            (1,),
            (2,),
            (7,),
            (7, False),
            (7, False, 5.0),
            (8, True, 0.0),
            (8, True, -5.0),
        ]
        return [torch.kaiser_window(*one, device=device) for one in given], out

    assert_same(windows)
