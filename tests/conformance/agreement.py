"""When two sides agree: equal structure, types, geometry, numbers within eager's tolerance, errors.

A tensor beyond eager's tolerance has to be within it of the result in the widest type. Or rounding
has to explain it: nowhere may it be more than twice as far from that result as eager is at most
(an order of summation can do that), and each element beyond the tolerance needs a reason of its
own (`rounding.py`): to be as near to the widest type's as eager's element is, or within the spread
that errors of a last digit give eager's own. A nan or an infinity is never rounding.
"""

import functools
import re
from collections.abc import Callable

import rounding
import torch
from noise import Noise
from torch.utils._pytree import keystr, tree_flatten_with_path

RUNS = 6  # of eager's under noise


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


class Arbiter:
    """What rounding may make of a case: its trees in the widest type, and under noise."""

    def __init__(self, widest: Callable, again: Callable):
        self.widest, self.again = widest, again

    @functools.cached_property
    def trees(self) -> list[dict]:
        """Eager's under noise: each has other errors of a last digit."""
        found = []
        for seed in range(RUNS):
            with Noise(seed):
                found.append(leaves(attempt(self.again)))
        return found

    @functools.cached_property
    def exact_tree(self) -> dict:
        return leaves(attempt(self.widest))

    def exact(self, where: str):
        return self.exact_tree.get(where)

    def runs(self, where: str) -> list:
        return [tree.get(where) for tree in self.trees]


def error_of(t: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest distance from the exact result, where that is a number."""
    distance = (t.to(exact.dtype) - exact).abs()
    return distance[exact.isfinite()].nan_to_num(nan=torch.inf).max().item()


def is_special(t: torch.Tensor) -> torch.Tensor:
    return ~torch.isfinite(t)


def outside(actual, expected, rtol=None, atol=None) -> torch.Tensor:
    """The elements beyond a tolerance; torch.testing's where there is none."""
    if rtol is None:
        rtol, atol = torch.testing._comparison.default_tolerances(actual, expected)
    return ~torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


def explained(actual, expected, arbiter: Arbiter, where: str, tolerance) -> bool:
    """Whether the result in the widest type or rounding excuses the difference."""
    exact = arbiter.exact(where)
    if not is_like(exact, expected):
        return False
    exact = host(exact)
    if not outside(actual, exact.to(expected.dtype), **tolerance).any():
        return True
    left = outside(actual, expected, **tolerance)
    if (left & (is_special(actual) | is_special(expected))).any():
        return False
    if not error_of(actual, exact) <= 2 * error_of(expected, exact):
        return False
    runs = [host(r) for r in arbiter.runs(where) if is_like(r, expected)]
    more = rounding.unexplained(actual, expected, runs, exact)
    return not (left & (more.any(-1) if expected.is_complex() else more)).any()


def is_like(t, expected: torch.Tensor) -> bool:
    """Whether it is a tensor of rounded numbers, one for each of the other's."""
    alike = isinstance(t, torch.Tensor) and t.shape == expected.shape
    alike = alike and t.layout is expected.layout is torch.strided
    return alike and rounding.is_rounded(t) and rounding.is_rounded(expected)


def close(actual, expected, tolerance):
    torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=False, **tolerance)


def same_kind(actual, expected, strides, where):
    has, wants = kind(actual, strides), kind(expected, strides)
    assert has == wants, f"result{where}: {has} against {wants}"


def same_numbers(actual, expected, arbiter, tolerance_of, device, where):
    assert device in (None, actual.device.type) or expected.device.type != "cpu", (
        f"result{where} is on {actual.device}"
    )
    actual, expected = host(actual), host(expected)
    tolerance = tolerance_of(expected.dtype)
    try:
        close(actual, expected, tolerance)
    except AssertionError as error:
        if not arbiter or not explained(actual, expected, arbiter, where, tolerance):
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
    """Raises AssertionError unless the two trees agree.

    What is on cpu there has to be on `device` here, unless that is None.
    """
    mine, theirs = leaves(actual), leaves(expected)
    errors = [where for where, leaf in mine.items() if isinstance(leaf, Raised)]
    for where in dict.fromkeys([*errors, *theirs, *mine]):
        absent = "nothing"
        a, e = mine.get(where, absent), theirs.get(where, absent)
        if isinstance(a, torch.Tensor) and isinstance(e, torch.Tensor):
            same_kind(a, e, strides, where)
            if numbers:
                same_numbers(a, e, arbiter, tolerance_of, device, where)
        elif isinstance(e, torch.device) and isinstance(a, torch.device):
            assert a.type == (device if e.type == "cpu" else e.type), f"{where}: {a}"
        elif isinstance(e, float | complex) and type(a) is type(e):
            close(a, e, {})
        elif numbers or type(a) is not type(e):
            agree = type(a) is type(e) and a == e
            assert agree, f"result{where}: {shown(a)} where cpu has {shown(e)}"
