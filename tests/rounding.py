"""When two results are the same numbers: equal, or apart by no more than rounding explains.

What is equal, or within two units of the last place, is the same. Elsewhere an element is right if
it lies within the spread of eager's perturbed runs (`noise.py`) and a few units; or if it is at
least as near to the result in double precision as eager's is; or if it is (as an integer, a nan,
an infinity) what one of the other runs has there, or lies between what they have, for bits of a
float are an integer. Where most of the perturbed runs are nan, they say little of its digits. Every
element has to explain itself: what is far off elsewhere in the tensor, or large, excuses nothing.
The sign of a zero is compared, a nan's sign and payload are not. What is below 2**-120 is as good
as any number there, and as a zero of its sign: libraries flush it (oneDNN's swish gives 0 for
5e-37). So there is no tolerance: what eager computes reliably has to be right, and what it does
not, may be anything that eager itself might have given.
"""

import torch

NEAR = 2  # units of the last place that need no reason
SPREAD = 4  # times the spread
UNITS = 6  # and so many units
COARSE = 2.0**-20  # of what says little of its digits

TINY = 2.0**-120  # below it one number is as good as another


def is_rounded(t: torch.Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def as_real(t: torch.Tensor) -> torch.Tensor:
    t = torch.view_as_real(t) if t.is_complex() else t
    return t.to(torch.float64)


def units(t: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """The distance to the next number of eager's type; of complex ones, for the larger part."""
    info = torch.finfo(eager.dtype)
    size = as_real(eager).abs()
    if eager.is_complex():
        size = size.amax(-1, keepdim=True).expand_as(size)
    return size.clamp(min=info.tiny) * info.eps


def same_special(a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """Equal, infinities included, with the sign of zero; or both nan."""
    equal = (a == e) & ((a != 0) | (a.signbit() == e.signbit()))
    return equal | (a.isnan() & e.isnan())


def wrong(actual: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """The elements that need a reason, of real numbers where the type is complex."""
    if not is_rounded(eager):
        return actual != eager
    a, e = as_real(actual), as_real(eager)
    near = ((a - e).abs() <= NEAR * units(actual, eager)) & ((a != 0) | (e != 0))
    near |= (a.abs() < TINY) & (e.abs() < TINY) & ((a != 0) | (e != 0))
    return ~(same_special(a, e) | near)


def other_bits(actual: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """The elements that are not the very same number."""
    if not is_rounded(eager):
        return actual != eager
    return ~same_special(as_real(actual), as_real(eager))


def unexplained(actual, eager, runs: list, exact) -> torch.Tensor:
    """Those of them that rounding does not explain. `runs`, `exact`: such tensors, or others."""
    left = wrong(actual, eager)
    runs = [r for r in runs if isinstance(r, torch.Tensor) and r.shape == eager.shape]
    runs = [r for r in runs if r.dtype == eager.dtype]
    if not is_rounded(eager):
        spread = torch.zeros(eager.shape, dtype=torch.float64)
        for r in runs:
            left &= actual != r
            spread = torch.maximum(spread, (as_real(r) - as_real(eager)).abs())
        if isinstance(exact, torch.Tensor) and exact.shape == eager.shape:
            left &= actual != exact
        return left & ~((as_real(actual) - as_real(eager)).abs() <= SPREAD * spread)
    a, e = as_real(actual), as_real(eager)
    one = units(actual, eager).nan_to_num(nan=0.0)
    spread, about = torch.zeros_like(e), e.clone()
    for r in map(as_real, runs):
        left &= ~same_special(a, r)
        about = torch.where(about.isnan(), r, about)  # others may have numbers where eager has none
        spread = torch.maximum(spread, (r - about).abs().nan_to_num(nan=0.0, posinf=torch.inf))
    left &= ~((a - about).abs() <= SPREAD * spread + UNITS * one * (spread > 0))
    if runs:
        nans = torch.stack([as_real(r).isnan() for r in runs])
        close = (a - e).abs() <= COARSE * e.abs()
        left &= ~((2 * nans.sum(0) > len(runs)) & close)
    if isinstance(exact, torch.Tensor) and exact.shape == eager.shape and is_rounded(exact):
        if exact.is_complex() != eager.is_complex():
            return left
        x = as_real(exact)
        mine, theirs = (a - x).abs(), (e - x).abs().nan_to_num(nan=0.0, posinf=0.0)
        unit = torch.finfo(eager.dtype).eps * x.abs()
        left &= ~(same_special(a, x) & ~a.isfinite())
        finite = x.isfinite() & a.isfinite() & ((a != 0) | (e != 0))
        left &= ~(finite & (mine <= theirs + UNITS * unit))
    return left
