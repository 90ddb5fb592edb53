"""Lazy conjugation and negation: views, copies and gradients see what the tensor means."""

import pytest
import torch
from differential import assert_same, normal


def complex_of(*shape, device):
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.complex128).to(device)


VIEWS = {
    "reshape": lambda z: z.reshape(-1),
    "select": lambda z: z[1],
    "transpose": lambda z: z.mT,
    "slice": lambda z: z[:, ::2],
    "imaginary": lambda z: z.imag,
    "as_strided": lambda z: z.as_strided((3,), (2,), 1),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_a_conjugated_tensor(view):
    def compute(device):
        v = VIEWS[view](complex_of(4, 4, device=device).conj())
        return v, v.is_conj(), v.is_neg(), v * 2, v.clone()

    assert_same(compute)


@pytest.mark.parametrize("source", ["plain", "conjugated"])
@pytest.mark.parametrize("target", ["plain", "conjugated"])
def test_copies_between_meanings(source, target):
    def compute(device):
        a, b = complex_of(3, device=device), complex_of(3, device=device) * 2
        (a.conj() if target == "conjugated" else a).copy_(b.conj() if source == "conjugated" else b)
        return a

    assert_same(compute)


def test_products_of_adjoint_matrices():
    def compute(device):
        a = complex_of(2, 3, 3, device=device).requires_grad_()
        y = a.mH @ a
        y.abs().sum().backward()
        return y, a.grad

    assert_same(compute)


def test_a_result_that_is_conjugated():
    assert_same(lambda device: torch.vdot(*complex_of(2, 4, device=device).conj()))


def test_a_zero_tangent_is_zero():
    def compute(device):
        x = normal(4, device=device)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            return torch.autograd.forward_ad.unpack_dual(dual.sgn()).tangent.clone()

    assert_same(compute)


def test_a_zero_gradient_flows_on():
    def compute(device):
        x = normal(4, device=device, grad=True)
        y = torch.where(x > 0, x, 0.5 * x).sgn()
        return torch.autograd.grad(y.sum(), x, create_graph=True)

    assert_same(compute, ignore=["requires_grad", "is_leaf"])
