"""Eager with every operator in double precision and its results rounded once.

The types are the program's own. What is nearer to this than eager is right: eager's operators of
narrow types round within, each in its own way.
"""

import torch
import torch.autograd.forward_ad
from noise import EXACT, is_view
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from undefined import has_rounding, written

WIDE = dict.fromkeys((torch.complex32, torch.complex64, torch.complex128), torch.complex128)

# What torch's kernel rounds to float32 in any type: a sixth.
RIGHT = {
    torch.ops.aten.hardsigmoid_backward.default: lambda gradient, x: torch.where(
        x.abs() < 3, gradient / 6, 0.0
    )
}


class Careful(TorchDispatchMode):
    """While it is on, each operator runs a second time, wide, and gives its results those numbers.

    So types, strides and errors are its own. One that draws random numbers, or does not compute in
    double precision, keeps its numbers, too.
    """

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name.split("::")[1]
        dual = torch.autograd.forward_ad._current_level >= 0
        if name in EXACT or is_view(function) or dual:
            return function(*args, **kwargs)
        wide_args, wide_kwargs = tree_map_only(torch.Tensor, widened, (args, kwargs))
        before = torch.get_rng_state()
        result = function(*args, **kwargs)
        if not torch.equal(before, torch.get_rng_state()):
            return result
        try:
            wide = RIGHT.get(function, function)(*wide_args, **wide_kwargs)
        except RuntimeError:
            return result
        take(tree_leaves(result), tree_leaves(wide))
        take(written(function, args, kwargs), written(function, wide_args, wide_kwargs))
        return result


def widened(t: torch.Tensor) -> torch.Tensor:
    if t.is_conj():  # which torch, this near to its kernels, no longer looks at
        return widened(t.conj()).conj()
    if t.is_neg():
        return widened(t._neg_view())._neg_view()
    return t.to(WIDE.get(t.dtype, torch.float64), copy=True) if has_rounding(t) else t


def take(narrow, wide) -> None:
    for to, numbers in zip(narrow, wide, strict=True):
        same = isinstance(to, torch.Tensor) and has_rounding(to) and to.shape == numbers.shape
        if same and torch._debug_has_internal_overlap(to) == 0:
            to.copy_(numbers)
