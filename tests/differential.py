"""Differential testing: what a function gives on lazuli is what it gives on cpu.

A test passes a function of the device's name to `assert_same` or `assert_same_error`. The function
makes its inputs with `normal` and `tensor`, so that both runs start from the same numbers.
"""

import re

import numpy
import pytest
import torch

DEVICES = ("cpu", "lazuli")

# What kernels of ours compute on.
NATIVE_TYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


def normal(*shape, device, dtype=torch.float32, grad=False):
    """Normal random numbers, drawn on the CPU wherever they go."""
    x = torch.randn(shape).to(dtype).to(device)
    return x.requires_grad_(grad)


def tensor(data, device, dtype=None, grad=False):
    return torch.tensor(data, dtype=dtype).to(device).requires_grad_(grad)


class Double(torch.autograd.Function):
    """A function that Lazuli has no derivative of: a foreign node in the middle of a graph."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2 + 0 * ctx.saved_tensors[0]


class Mutating(torch.autograd.Function):
    """Writes its input, and says so."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Several(torch.autograd.Function):
    """Two results, one of which has no gradient; the other is kept."""

    @staticmethod
    def forward(ctx, x, y):
        a, c = x * y, (x > y).to(x.dtype)
        ctx.save_for_backward(x, y, a)
        ctx.mark_non_differentiable(c)
        ctx.set_materialize_grads(False)
        return a, c

    @staticmethod
    def backward(ctx, g, _):
        x, y, a = ctx.saved_tensors
        return g * y, g * x + 0 * a if ctx.needs_input_grad[1] else None


class Viewing(torch.autograd.Function):
    """Returns a view of its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return g.reshape(ctx.shape).exp()


def run(function, device):
    torch.manual_seed(0)
    return function(device)


def both(function):
    """What the function gives on cpu and on lazuli, from the same random numbers."""
    return [run(function, device) for device in DEVICES]


def geometry(t: torch.Tensor) -> dict:
    """What a tensor says of itself, besides its numbers and its device."""
    return {
        "dtype": t.dtype,
        "shape": tuple(t.shape),
        "stride": t.stride(),
        "offset": t.storage_offset(),
        "requires_grad": t.requires_grad,
        "is_leaf": t.is_leaf,
    }


def compare(actual, expected, where="result", ignore=(), **tolerance):
    """Compares tensors by numbers and geometry, and containers of them; anything else by ==."""
    assert type(actual) is type(expected), f"{where}: {actual!r} against {expected!r}"
    if isinstance(expected, torch.Tensor):
        has, wants = geometry(actual), geometry(expected)
        for name in ignore:
            has.pop(name), wants.pop(name)
        assert has == wants, f"{where}: {has} against {wants}"
        torch.testing.assert_close(
            actual.detach().cpu(),
            expected.detach(),
            equal_nan=True,
            check_stride=False,
            msg=lambda text: f"{where}: {text}",
            **tolerance,
        )
    elif isinstance(expected, numpy.ndarray):
        numpy.testing.assert_array_equal(actual, expected, where)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), where
        for key in expected:
            compare(actual[key], expected[key], f"{where}[{key!r}]", ignore, **tolerance)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), where
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            compare(a, e, f"{where}[{i}]", ignore, **tolerance)
    else:
        assert actual == expected or (actual != actual and expected != expected), where


def assert_same(function, ignore=(), **tolerance):
    """Runs the function on both devices and compares what it returns; returns lazuli's."""
    expected, actual = both(function)
    compare(actual, expected, ignore=ignore, **tolerance)
    return actual


def assert_same_error(function, error=Exception):
    """Both devices raise the same class with the same message, save for the device's name."""
    with pytest.raises(error) as expected:
        run(function, "cpu")
    with pytest.raises(error) as actual:
        run(function, "lazuli")
    assert type(actual.value) is type(expected.value)
    assert without_device(actual.value) == without_device(expected.value)
    return str(actual.value)


def assert_no_external_call(step, turns=4):
    """The last of a few turns on lazuli makes no call of torch's kernels."""
    for _ in range(turns):
        before = dict(torch.lazuli.metrics()["external_calls"])
        step("lazuli")
        torch.lazuli.synchronize()
    assert dict(torch.lazuli.metrics()["external_calls"]) == before


def without_device(error: BaseException) -> str:
    text = str(error).replace("lazuli:0", "cpu").replace("lazuli", "cpu")
    return re.sub(r"cpu(\w+)Type", r"torch.\1Tensor", text)
