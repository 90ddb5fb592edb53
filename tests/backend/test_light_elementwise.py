"""Elementwise operators that are recorded as steps: torch's names, and its gradients where a rule
is a choice (ties, bounds, zeros, infinities, nan)."""

import itertools
import math

import pytest
import torch
from differential import assert_same
from torch.nn import functional as F

ODD = [-math.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 2.0, math.inf, math.nan]
UNARY = {
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "log2": torch.log2,
    "log10": torch.log10,
    "erfc": torch.erfc,
    "1 - x": lambda x: 1 - x,
    "clamp": lambda x: x.clamp(-0.5, 1.0),
    "clamp, low above high": lambda x: x.clamp(1.0, -0.5),
    "clamp, low alone": lambda x: x.clamp(min=-0.5),
    "clamp, high alone": lambda x: x.clamp(max=0.5),
    "clamp_min": lambda x: x.clamp_min(0.5),
    "clamp_max": lambda x: x.clamp_max(0.5),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.5, 3.0),
}
BINARY = {
    "hypot": torch.hypot,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "rsub": torch.rsub,
    "rsub, factor": lambda a, b: torch.rsub(a, b, alpha=3),
    "lerp": lambda a, b: torch.lerp(a, b, 0.25),
    "lerp, from the end": lambda a, b: torch.lerp(a, b, 0.75),
    "clamp_min": lambda a, b: a.clamp_min(b),
    "clamp_max": lambda a, b: a.clamp_max(b),
}
TERNARY = {
    "lerp": torch.lerp,
    "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
    "addcdiv": lambda a, b, c: torch.addcdiv(a, b, c, value=0.5),
    "clamp": lambda a, b, c: torch.clamp(a, b, c),
}
CASES = [
    pytest.param(operands, function, id=f"{operands}: {name}")
    for operands, table in ((1, UNARY), (2, BINARY), (3, TERNARY))
    for name, function in table.items()
]
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def combinations(count):
    """Every combination of the odd numbers, as a column for each operand."""
    numbers = ODD if count < 3 else [-math.inf, -1.0, 0.0, 0.5, 1.0, math.nan]
    return list(zip(*itertools.product(numbers, repeat=count), strict=True))


@TYPES
@pytest.mark.parametrize(("count", "function"), CASES)
def test_gradients(count, function, dtype):
    def program(device):
        every = [
            torch.tensor(c, dtype=dtype).to(device).requires_grad_() for c in combinations(count)
        ]
        y = function(*every)
        y.backward(torch.linspace(0.5, 1.5, y.numel(), dtype=dtype).to(device))
        return [x.grad for x in every]

    assert_same(program)


@pytest.mark.parametrize(("count", "function"), CASES)
def test_names(count, function):
    def name(device):
        return function(
            *(torch.rand(3).to(device).requires_grad_() for _ in range(count))
        ).grad_fn.name()

    assert name("lazuli") == name("cpu")


@pytest.mark.parametrize(("count", "function"), CASES)
def test_some_gradients(count, function):
    """Of one operand each; the others are broadcast."""

    def program(device):
        found = []
        for i in range(count):
            every = [torch.full((1, 3), 0.3).to(device) for _ in range(count)]
            every[i] = torch.tensor([[0.25], [0.75]]).to(device).requires_grad_()
            found += torch.autograd.grad(function(*every).sum(), [every[i]])
        return found

    assert_same(program)


@pytest.mark.parametrize(("count", "function"), CASES)
def test_second_derivative(count, function):
    def program(device):
        every = [
            torch.tensor([0.2 + 0.1 * i, 0.7 - 0.05 * i]).to(device).requires_grad_()
            for i in range(count)
        ]
        first = torch.autograd.grad(function(*every).square().sum(), every, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), every, allow_unused=True)

    assert_same(program)


def subsets(count):
    return sorted({*((i,) for i in range(count)), tuple(range(count))})


@pytest.mark.parametrize(("count", "function"), CASES)
def test_writes_before_backward(count, function):
    """What torch keeps for backward may not be written, and all else may."""

    def program(device):
        found = []
        for wanted, written in itertools.product(subsets(count), [*range(count), None]):
            leaves = [torch.tensor([0.3, 0.6]).to(device) + 0.01 * i for i in range(count)]
            operands = [t.requires_grad_(i in wanted) * 1 for i, t in enumerate(leaves)]
            y = function(*operands)
            with torch.no_grad():
                (y if written is None else operands[written]).mul_(2)
            try:
                found.append(torch.autograd.grad(y.sum(), [leaves[i] for i in wanted]))
            except RuntimeError:
                found.append(f"{written} may not be written where {wanted} are wanted")
        return found

    assert_same(program)


@pytest.mark.parametrize(("count", "function"), CASES)
def test_backward_twice(count, function):
    """A second time is an error where torch keeps something."""

    def program(device):
        found = []
        for wanted in subsets(count):
            operands = [torch.tensor([0.3, 0.6]).to(device) + 0.01 * i for i in range(count)]
            y = function(*(t.requires_grad_(i in wanted) for i, t in enumerate(operands)))
            y.backward(torch.ones_like(y))
            try:
                y.backward(torch.ones_like(y))
                found.append("may run again")
            except RuntimeError:
                found.append("may not run again")
        return found

    assert_same(program)
