"""When two sides agree: equal structure, types, geometry, numbers within eager's tolerance, errors.

Where rounding alone separates the two, the result in the widest type decides: being within
eager's tolerance of it, or not more than twice as far from it as eager is anywhere in the tensor
(an order of summation can do that), is no difference.
"""

import re

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path


class Raised:
    """An exception as a result: two are the same if class and message are."""

    def __init__(self, error: BaseException):
        self.kind = type(error).__name__
        self.message = on_any_device(str(error))

    def __eq__(self, other):
        return isinstance(other, Raised) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        return f"{self.kind}: {self.message}"


def on_any_device(text: str) -> str:
    """A message without the device's name, and without what torch appends of its C++ frames."""
    text = text.split("\nException raised from")[0].split("C++ CapturedTraceback:")[0]
    text = re.sub(r"lazuli:0|lazuli|cpu|CPU", "<device>", text)
    text = text.replace(", device='<device>'", "")
    return text.replace("<device>FloatType", "torch.FloatTensor").strip()


def attempt(function):
    """What the function returns, or the exception that it raises as a result."""
    try:
        return function()
    except Exception as error:  # any class: it is compared
        return Raised(error)


def significant_strides(t: torch.Tensor) -> list[int]:
    """The strides that decide where elements lie."""
    if t.layout is not torch.strided or not t.numel():
        return []
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1]


def kind(t: torch.Tensor, strides: bool) -> dict:
    return {
        "dtype": t.dtype,
        "shape": tuple(t.shape),
        "strides": significant_strides(t) if strides else None,
        "layout": t.layout,
        "requires_grad": t.requires_grad,
        "conj": t.is_conj(),
        "neg": t.is_neg(),
    }


def host(t: torch.Tensor) -> torch.Tensor:
    return t.detach().cpu().resolve_conj().resolve_neg()


def error_of(t: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest distance from the exact result, where that is a number."""
    if not t.numel():
        return 0.0
    distance = (t.to(exact.dtype) - exact).abs()
    return distance[~(exact.isnan() | exact.isinf())].nan_to_num(nan=torch.inf).max().item()


def as_close_as_eager(actual, expected, exact, tolerance) -> bool:
    """Whether rounding excuses the difference."""
    if not (isinstance(exact, torch.Tensor) and exact.shape == expected.shape):
        return False
    exact = host(exact)
    if not (exact.is_floating_point() or exact.is_complex()):
        return False
    try:
        close(actual, exact.to(expected.dtype), tolerance)
        return True
    except AssertionError:
        special = ~torch.isfinite(expected)
        if special.any() and not torch.equal(
            torch.view_as_real(actual[special].to(torch.complex128)).nan_to_num(nan=0.5),
            torch.view_as_real(expected[special].to(torch.complex128)).nan_to_num(nan=0.5),
        ):
            return False
        return error_of(actual, exact) <= 2 * error_of(expected, exact)


def close(actual, expected, tolerance):
    torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=False, **tolerance)


def same_kind(actual, expected, strides, where):
    has, wants = kind(actual, strides), kind(expected, strides)
    assert has == wants, f"result{where}: {has} against {wants}"


def same_numbers(actual, expected, exact, tolerance_of, device, where):
    assert device in (None, actual.device.type) or expected.device.type != "cpu", (
        f"result{where} is on {actual.device}"
    )
    actual, expected = host(actual), host(expected)
    tolerance = tolerance_of(expected.dtype)
    try:
        close(actual, expected, tolerance)
    except AssertionError as error:
        if not as_close_as_eager(actual, expected, exact(), tolerance):
            raise AssertionError(f"result{where}: {error}") from None


def leaves(tree) -> dict:
    """The tree's leaves by where they are in it."""
    return {keystr(path): leaf for path, leaf in tree_flatten_with_path(tree)[0]}


def shown(leaf) -> str:
    """A leaf in a few words."""
    if isinstance(leaf, torch.Tensor):
        return f"a tensor of {leaf.dtype} and shape {tuple(leaf.shape)}"
    return repr(leaf)


def same(actual, expected, arbiter, tolerance_of, device="lazuli", numbers=True, strides=True):
    """Raises AssertionError unless the two trees agree. `arbiter()` gives the exact one.

    What is on cpu there has to be on `device` here, unless that is None.
    """
    mine, theirs = leaves(actual), leaves(expected)
    exact = {}

    def exact_leaf(where):
        if not exact and arbiter:
            exact.update(leaves(attempt(arbiter)))
        return exact.get(where)

    errors = [where for where, leaf in mine.items() if isinstance(leaf, Raised)]
    for where in dict.fromkeys([*errors, *theirs, *mine]):
        absent = "nothing"
        a, e = mine.get(where, absent), theirs.get(where, absent)
        if isinstance(a, torch.Tensor) and isinstance(e, torch.Tensor):
            same_kind(a, e, strides, where)
            if numbers:
                same_numbers(a, e, lambda w=where: exact_leaf(w), tolerance_of, device, where)
        elif isinstance(e, torch.device) and isinstance(a, torch.device):
            assert a.type == (device if e.type == "cpu" else e.type), f"{where}: {a}"
        elif isinstance(e, float | complex) and type(a) is type(e):
            close(a, e, {})
        elif numbers or type(a) is not type(e):
            agree = type(a) is type(e) and a == e
            assert agree, f"result{where}: {shown(a)} where cpu has {shown(e)}"
