"""Strides in dimensions of size 1 or 0, of which memory says nothing: those of eager."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, assert_same_error

SHAPES = (
    (1,),
    (1, 3),
    (3, 1),
    (2, 1, 2),
    (1, 2, 2),
    (1, 2, 1, 4),
    (2, 1, 1, 3),
    (0, 3),
    (0, 1),
    (2, 0, 1),
    (1, 0, 2, 1),
    (1, 2, 1, 2, 2),
)

OPERATORS = {
    "sigmoid": torch.sigmoid,
    "times a number": lambda x: x * 2,
    "a number less it": lambda x: 1 - x,
    "compared with a number": lambda x: x < 1,
    "isinf": torch.isinf,
    "isinf of whole numbers": lambda x: torch.isinf(x.long()),
    "isposinf": torch.isposinf,
    "isfinite": torch.isfinite,
    "isfinite of whole numbers": lambda x: torch.isfinite(x.long()),
    "remainder of a number": lambda x: x.fmod(2),
    "to a number's power": lambda x: x**2,
    "twice itself": lambda x: x + x,
    "plus a row": lambda x: x + torch.ones(x.shape[-1:], device=x.device),
    "times a number's tensor": lambda x: x * torch.ones((), device=x.device),
    "clamp": lambda x: x.clamp(0, 1),
    "leaky_relu": F.leaky_relu,
    "lerp": lambda x: x.lerp(x, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "where": lambda x: torch.where(x > 1, x, x),
    "prelu": lambda x: F.prelu(x, torch.ones(1, device=x.device)),
    "logsigmoid": F.logsigmoid,
    "flip": lambda x: x.flip(0),
    "to complex": lambda x: x.to(torch.complex64).sigmoid(),
    "into an empty tensor": lambda x: torch.sub(x, 1, out=torch.empty(0, device=x.device)),
}


def layouts(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Dense in every order of the dimensions, and some that skip, share or repeat elements."""
    orders = itertools.permutations(range(len(shape)))
    found = []
    for order in itertools.islice(orders, 0, None, 1 if len(shape) < 4 else 7):
        strides, step = [0] * len(shape), 1
        for d in order:
            strides[d] = step
            step *= max(shape[d], 1)
        found.append(tuple(strides))
        found.append(tuple(1 if n == 1 else s for n, s in zip(shape, strides, strict=True)))
        found.append(tuple(7 if n == 1 else s for n, s in zip(shape, strides, strict=True)))
        found.append(tuple(2 * s for s in strides))
    return found + [(0,) * len(shape), (1,) * len(shape)]


@pytest.mark.parametrize("name", OPERATORS)
def test_strides_are_eagers(name):
    other = []
    for shape in SHAPES:
        for strides in layouts(shape):
            make = torch.arange(200.0).as_strided
            of_eager = OPERATORS[name](make(shape, strides))
            ours = OPERATORS[name](torch.arange(200.0).to("lazuli").as_strided(shape, strides))
            if ours.stride() != of_eager.stride():
                other.append((shape, strides, of_eager.stride(), ours.stride()))
            torch.testing.assert_close(ours.cpu(), of_eager, equal_nan=True)
    assert not other


@pytest.mark.parametrize("strides", [(1, 2, 2, 2), (1, 1, 2, 1), (1, 2, 1, 1), (9, 1, 2, 6)])
def test_ones_of_operands_that_are_broadcast(strides):
    """There the strides of their dimensions of size 1 decide how the result lies."""

    def run(device):
        x = torch.arange(40.0).to(device).as_strided((2, 1, 1, 1), strides)
        y = torch.arange(6.0).to(device).view(1, 2, 1, 3)
        return [x * y, y * x, x + y, x * 2, torch.where(x > 0, x, y), x.sigmoid() - y]

    assert_same(run)


def test_a_product_of_kronecker_of_what_is_transposed():
    """Eager refuses it: the product of its parts lies so that it cannot be viewed."""

    def run(device):
        x = torch.ones(1, 2, device=device).t()
        return torch.kron(x, torch.ones(2, 3, device=device))

    assert_same_error(run, RuntimeError)
