"""Calls whose results nobody promises: eager's own kernels give now this, now that."""

import contextlib
import math

import torch
from torch.utils._pytree import tree_leaves

SCATTERS = ("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter")
DEVIATIONS = (
    *("var", "std", "var_mean", "std_mean"),
    *("native_layer_norm", "native_group_norm", "native_batch_norm"),
)

PIVOTING = ("linalg_lu_factor_ex", "linalg_lu", "_linalg_solve_ex", "linalg_inv_ex")

READS_ALL = (
    *("dot", "mv", "mm", "bmm", "linear", "matmul", "addmv", "addmm", "addbmm", "baddbmm"),
    "searchsorted",
)


def leaves_open(function, args: tuple, kwargs: dict) -> bool:
    """Whether a call of an ATen operator does. One that is going to raise does not."""
    name = function._schema.name.split("::")[1]
    with contextlib.suppress(Exception):
        if name == "_to_copy" and does_not_hold(kwargs.get("dtype"), args[0]):
            return True
        if name == "copy_" and does_not_hold(args[0].dtype, args[1]):
            return True
        if function is torch.ops.aten.view.dtype:  # a nan's bits may be any
            return has_rounding(args[0]) and bool(args[0].isnan().any())
        if name in ("median", "nanmedian", "kthvalue", "mode"):
            return 0 in args[0].stride()  # cpu's read beside what is expanded
        if name == "prod":
            return overflows_in_part(args[0])
        if "batch_norm" in name and has_few_weights(args):  # cpu reads on beyond them
            return True
        if name in DEVIATIONS:
            return any(map(has_equal_numbers, rows(name, args)))
        if name == "lu_unpack":  # cpu reads on beyond the pivots
            return args[1].shape[-1] < min(args[0].shape[-2:])
        if name in PIVOTING:
            return any(map(is_singular, args[0].reshape(-1, *args[0].shape[-2:])))
        if name in ("copysign", "copysign_", "signbit"):  # a nan's sign may be any
            return has_rounding(args[-1]) and bool(args[-1].isnan().any())
        if name == "segment_reduce" and kwargs.get("unsafe"):  # lengths need not fit
            return True
        if name == "segment_reduce" and (offsets := kwargs.get("offsets")) is not None:
            size = args[0].shape[kwargs.get("axis", 0)]  # nobody looks whether they are within
            return bool(((offsets < 0) | (offsets > size)).any() | (offsets.diff() < 0).any())
        if "_polynomial_" in name:  # where it begins with nan it returns what it never wrote
            return isinstance(args[0], torch.Tensor) and bool(args[0].isnan().any())
        if name in READS_ALL and "out" in kwargs:  # written while the others are read
            read = [*args, kwargs.get("sorter")]
            return any(is_alias(kwargs["out"], x) for x in read if isinstance(x, torch.Tensor))
        if name == "resize_":  # memory that is added holds anything
            have = args[0].untyped_storage().nbytes() - args[0].storage_offset() * args[0].itemsize
            return math.prod(args[1]) * args[0].itemsize > have
        if name in ("convolution", "convolution_backward"):
            return meets_padding(name, args)
        if name in SCATTERS:  # the result lies as its operand does
            return overlaps_itself(args[0])
        targets = [t for t in written(function, args, kwargs) if isinstance(t, torch.Tensor)]
        read = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        return any(map(overlaps_itself, targets)) or any(
            overlaps_in_part(t, x) for t in targets for x in read
        )
    return False


def meets_padding(name: str, args: tuple) -> bool:
    """Whether a convolution multiplies what is not finite with zeros of its padding, or of an
    imaginary part: some kernels do, some leave those products out."""
    tensors = [t for t in args if isinstance(t, torch.Tensor)]
    if all(t.isfinite().all() for t in tensors):
        return False
    first = 4 if name == "convolution" else 5
    padding, is_transposed = args[first], args[first + 2]
    return any(padding) or is_transposed or tensors[0].is_complex()


def has_few_weights(args: tuple) -> bool:
    """Whether a batch norm has fewer of them than channels."""
    given = [t for t in args[1:] if isinstance(t, torch.Tensor) and t.dim() == 1 and len(t) > 0]
    return any(len(t) < args[0].shape[1] for t in given)


def is_singular(matrix: torch.Tensor) -> bool:
    """But for its last bits, which then decide the order of its rows."""
    kind = torch.complex128 if matrix.is_complex() else torch.float64
    sizes = torch.linalg.svdvals(matrix.to(kind))
    few = 8 * max(matrix.shape) * torch.finfo(matrix.dtype).eps
    return sizes.numel() > 0 and bool(sizes[-1] <= few * sizes[0])


def overlaps_in_part(t: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether a write to one changes what is still to be read of the other. Eager refuses that
    where both are dense; else its loops have some order."""
    if t is x or not is_alias(t, x) or t.layout is not torch.strided:
        return False
    places = [(y.data_ptr(), y.shape, y.stride()) for y in (t, x)]
    if places[0] == places[1]:
        return False
    touched = [{y.data_ptr() + y.itemsize * a for a in addresses(y)} for y in (t, x)]
    return not touched[0].isdisjoint(touched[1])


def is_alias(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def does_not_hold(kind: torch.dtype | None, t) -> bool:
    """A conversion that C++ does not define: eager's own kernels give now this, now that."""
    if kind in (None, torch.bool) or kind.is_floating_point or kind.is_complex:
        return False
    if not (isinstance(t, torch.Tensor) and has_rounding(t)):
        return False
    info, x = torch.iinfo(kind), torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    x = x.resolve_neg().double()
    return not bool(((x > float(info.min) - 1) & (x < float(info.max) + 1)).all())


def has_rounding(t: torch.Tensor) -> bool:
    narrow = t.is_floating_point() or t.is_complex()
    plain = t.layout is torch.strided and not t._is_zerotensor()  # that one has no memory
    return narrow and plain and t.numel() > 0 and t.device.type == "cpu"


def overflows_in_part(x: torch.Tensor) -> bool:
    """Whether factors in some order are infinite, or 0, before the last brings them back."""
    if not x.is_floating_point():
        return False
    sizes, info = x.abs().to(torch.float64).log2(), torch.finfo(x.dtype)
    large, small = sizes[sizes.isfinite() & (sizes > 0)].sum(), sizes[sizes < 0].sum()
    overflows = large > math.log2(info.max) and bool((sizes < 0).any())
    vanishes = small < math.log2(info.tiny) and bool((sizes > 0).any())
    return bool(overflows or vanishes)


def written(function, args: tuple, kwargs: dict):
    for i, argument in enumerate(function._schema.arguments):
        if argument.is_write:
            x = args[i] if i < len(args) else kwargs.get(argument.name)
            yield from x if isinstance(x, list | tuple) else [x]


def rows(name: str, args: tuple) -> torch.Tensor:
    """What an operator takes the deviations of, a row each."""
    x, *more = args
    if name == "native_layer_norm":
        return x.reshape(-1, math.prod(more[0]))
    if name == "native_group_norm":
        return x.reshape(more[2] * more[5], -1)
    if name == "native_batch_norm":
        return x.movedim(1, 0).flatten(1)
    dims = more[0] if more and isinstance(more[0], list | tuple) and more[0] else range(x.dim())
    row = math.prod(x.shape[d] for d in dims)
    return x.movedim(list(dims), list(range(-len(dims), 0))).reshape(-1, row)


def has_equal_numbers(row: torch.Tensor) -> bool:
    """All but for rounding: their deviation is that of their mean, or nothing."""
    if not has_rounding(row) or row.is_complex() or row.numel() < 2:
        return False
    few = 16 * torch.finfo(row.dtype).eps * row.abs().max()
    return bool(few > 0 and row.max() - row.min() <= few)


def overlaps_itself(t) -> bool:
    """In a way that eager does not see, and so does not refuse to write."""
    return (
        isinstance(t, torch.Tensor)
        and t.layout is torch.strided
        and torch._debug_has_internal_overlap(t) == 2
        and len(set(addresses(t))) < t.numel()
    )


def addresses(t: torch.Tensor) -> list[int]:
    """Of its elements, in elements."""
    found = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(t.shape, t.stride(), strict=True):
        found = found.unsqueeze(-1) + torch.arange(size) * stride
    return found.flatten().tolist()
