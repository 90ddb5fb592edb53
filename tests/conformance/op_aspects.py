"""What is asked of an operator: each aspect maps a sample and a side to a tree of results.

The comparison is the same for all of them: the tree on lazuli is the tree on cpu.
"""

import contextlib

import torch
import torch.autograd.forward_ad as forward_ad
from agreement import Raised, attempt
from torch.utils._pytree import tree_map


def call(op, function, sample, side, tensor=None):
    torch.manual_seed(0)
    first = side.convert(sample.input, tensor)
    args, kwargs = side.convert(sample.args, tensor), side.convert(sample.kwargs, tensor)
    makes = not tensors_in((sample.input, sample.args, sample.kwargs)) and "device" not in kwargs
    with torch.device(side.device) if makes else contextlib.nullcontext():
        return function(first, *args, **kwargs)


def tensors_in(tree) -> list[torch.Tensor]:
    found = []
    tree_map(lambda x: found.append(x) if isinstance(x, torch.Tensor) else None, tree)
    return found


def drawn_like(t: torch.Tensor, seed: int, side) -> torch.Tensor:
    """Numbers of t's shape and type that are the same on every side."""
    narrow = {torch.complex32: torch.complex64}.get(t.dtype, t.dtype)
    numbers = torch.randn(
        t.shape,
        dtype=torch.complex128 if t.is_complex() else torch.float64,
        generator=torch.Generator().manual_seed(seed),
    )
    return numbers.to(narrow).to(t.dtype).to(side.device)


# ---- Values


def forward(op, sample, side):
    return sample.output_process_fn_grad(call(op, op, sample, side))


def noncontiguous(op, sample, side):
    return forward(op, sample.noncontiguous(), side)


def error_inputs(op, error_input, side):
    """Some errors only numbers show: lazuli raises those when somebody reads the result."""

    def read():
        result = call(op, op, error_input.sample_input, side)
        return [t.cpu() for t in tensors_in(result)] and result

    return attempt(read)


# ---- Writing


def in_place(op, sample, side):
    """The result, what an alias of the target sees, and that the target itself came back."""
    seen = {}

    def run(target, *args, **kwargs):
        seen["alias"] = target.detach()
        result = op.inplace_variant(target, *args, **kwargs)
        seen["is target"] = result is target
        seen["version"] = target._version
        return result

    result = attempt(lambda: call(op, run, sample, side))
    return {"result": result, **seen}


def exact_out(t, side):
    return torch.ones(t.shape, dtype=t.dtype, device=side.device)


def strided_out(t, side):
    """Every second element of a buffer, whose other elements must stay."""
    buffer = torch.ones((*t.shape, 2), dtype=t.dtype, device=side.device)
    return buffer[..., 0]


def empty_out(t, side):
    return torch.empty(0, dtype=t.dtype, device=side.device)


def longer_out(t, side):
    """Of another shape: torch resizes it and warns."""
    return torch.ones(
        (*t.shape[:-1], t.shape[-1] + 1) if t.dim() else (2,), dtype=t.dtype, device=side.device
    )


def other_type_out(t, side):
    """Where the result's type does not go, eager says so."""
    other = torch.int64 if t.is_floating_point() or t.is_complex() else torch.float32
    return torch.ones(t.shape, dtype=other, device=side.device)


def out_argument(op, sample, side):
    fresh = call(op, op, sample, side)
    if not tensors_in(fresh):
        return attempt(lambda: fresh)
    return {
        make.__name__: written(op, sample, side, fresh, make)
        for make in (exact_out, strided_out, empty_out, longer_out, other_type_out)
    }


def written(op, sample, side, fresh, make):
    out = tree_map(lambda t: make(t, side) if isinstance(t, torch.Tensor) else t, fresh)
    alias = tree_map(lambda t: t._base if t._base is not None else t.view_as(t), out)

    def into(*args, **kwargs):
        return op(*args, **kwargs, out=out)

    result = attempt(lambda: call(op, into, sample, side))
    if isinstance(result, Raised):
        return result
    pairs = zip(tensors_in(result), tensors_in(out), strict=True)
    return {"out": out, "alias": alias, "is out": [a is b for a, b in pairs]}


# ---- Derivatives


def differentiable(op, sample, side):
    """The inputs that take a gradient and the outputs that have one."""
    inputs = []

    def collect(t):
        t = side.tensor(t)
        inputs.extend([t] if t.requires_grad else [])
        return t

    result = call(op, op, sample, side, collect)
    outputs = tensors_in(sample.output_process_fn_grad(result))
    return inputs, [t for t in outputs if t.requires_grad]


def backward(op, sample, side):
    inputs, outputs = differentiable(op, sample, side)
    if not inputs or not outputs:
        return []
    given = [drawn_like(t, i, side) for i, t in enumerate(outputs)]
    return torch.autograd.grad(outputs, inputs, given, allow_unused=True)


def double_backward(op, sample, side):
    inputs, outputs = differentiable(op, sample, side)
    if not inputs or not outputs:
        return []
    given = [drawn_like(t, i, side).requires_grad_() for i, t in enumerate(outputs)]
    found = torch.autograd.grad(outputs, inputs, given, allow_unused=True, create_graph=True)
    first = [
        (g, drawn_like(g, 10 + i, side))
        for i, g in enumerate(found)
        if g is not None and g.requires_grad
    ]
    if not first:
        return []
    # Which second gradients are zero because there is none is each formula's own.
    again, given_again = zip(*first, strict=True)
    return torch.autograd.grad(again, inputs + given, given_again, materialize_grads=True)


def forward_mode(op, sample, side):
    count = 0

    def dual(t):
        nonlocal count
        t = side.tensor(t)
        if not t.requires_grad:
            return t
        count += 1
        return forward_ad.make_dual(t.detach(), drawn_like(t, count, side))

    with forward_ad.dual_level():
        result = sample.output_process_fn_grad(call(op, op, sample, side, dual))
        return [tuple(forward_ad.unpack_dual(t)) for t in tensors_in(result)]
