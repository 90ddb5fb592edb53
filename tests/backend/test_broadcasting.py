"""Broadcasting: values and gradients for operands whose shapes differ."""

import itertools

import pytest
import torch
from differential import assert_same, assert_same_error, normal

SHAPES = [(), (1,), (5,), (4, 1), (4, 5), (1, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1)]
PAIRS = list(itertools.product(SHAPES, SHAPES))


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_values_and_gradients(shapes):
    def compute(device):
        a, b = (normal(*shape, device=device, grad=True) for shape in shapes)
        y = a * b + a / (b * b + 1)
        y.sum().backward()
        return y, a.grad, b.grad, torch.maximum(a, b), a > b

    assert_same(compute, rtol=1e-5, atol=1e-5)


def test_three_operands():
    def compute(device):
        a, b, c = (normal(*s, device=device) for s in ((4, 1), (5,), (3, 1, 1)))
        return (
            torch.where(a > 0, b, c),
            torch.addcmul(a, b, c, value=0.5),
            torch.lerp(a.expand(4, 5), b.expand(4, 5), c),
            torch.clamp(b, a, c),
        )

    assert_same(compute)


def test_in_place_broadcasts_the_operand():
    def compute(device):
        x = normal(3, 4, 5, device=device)
        x += normal(5, device=device)
        x.mul_(normal(4, 1, device=device)).sub_(normal(1, device=device))
        return x

    assert_same(compute)


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((2, 3), (3, 2)), ((2, 3, 4), (3, 3, 4))])
def test_shapes_that_do_not_fit(shapes):
    def compute(device):
        a, b = (normal(*shape, device=device) for shape in shapes)
        return a + b

    assert_same_error(compute, RuntimeError)


def test_in_place_cannot_grow():
    assert_same_error(
        lambda device: normal(3, device=device).add_(normal(2, 3, device=device)), RuntimeError
    )


def test_products_broadcast_batches():
    def compute(device):
        a = normal(2, 1, 3, 4, device=device, grad=True)
        b = normal(5, 4, 2, device=device, grad=True)
        y = a @ b
        y.sin().sum().backward()
        return y, a.grad, b.grad, a @ b[0, :, 0], b[0, 0] @ b[0, :2]

    assert_same(compute, rtol=1e-5, atol=1e-5)


def test_expand_and_broadcast_to():
    def compute(device):
        x = normal(3, 1, device=device, grad=True)
        y = x.expand(2, 3, 4) + torch.broadcast_to(x, (3, 4)) + x.expand(-1, 4)
        y.pow(2).sum().backward()
        return y, x.grad

    assert_same(compute)
