"""Brings a variable to a shape and type through views, so that any operator can meet any other."""

import random

import torch

from fuzz.literal import literal, rounded, shape_text
from fuzz.scope import NAME_OF, on_gpu

SHORT = 40  # elements that are written out
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # neither compared by torch nor indices


def adapted(text: str, t: torch.Tensor, shape: tuple, dtype, rng: random.Random) -> str | None:
    """An expression over the variable `text`; None where nothing leads there."""
    shaped = with_shape(text, t, tuple(shape), rng)
    if shaped is None or t.dtype == dtype:
        return shaped
    if dtype not in NAME_OF:
        return None
    if t.is_complex() and not dtype.is_complex:
        shaped = (
            f"{shaped}.{rng.choice(('real', 'imag'))}" if rng.random() < 0.5 else f"{shaped}.abs()"
        )
    return f"{shaped}{bounded(t, dtype)}.to({NAME_OF[dtype]})"


def bounded(t: torch.Tensor, dtype) -> str:
    """C++ does not define what a number becomes that an integer does not hold."""
    if not t.is_floating_point() or dtype.is_floating_point or dtype.is_complex:
        return ""
    low = 0 if dtype == torch.uint8 else -100
    with torch.inference_mode():  # where tensors made in it may be looked at, too
        numbers = t.reshape(-1)
        fits = dtype == torch.bool or bool(((numbers >= low) & (numbers <= 100)).all())
    if fits:
        return ""
    return f".nan_to_num().clamp({low}, 100)"


def with_shape(text: str, t: torch.Tensor, shape: tuple, rng) -> str | None:
    if tuple(t.shape) == shape:
        return text if rng.random() < 0.8 else same_shape(text, t, rng)
    ways = [w for w in (permuted, sliced, reshaped, expanded, cut, strided) if rng.random() < 0.9]
    rng.shuffle(ways)
    for way in ways:
        if found := way(text, t, shape, rng):
            return found
    return repeated(text, t, shape)


def same_shape(text, t, rng) -> str:
    if t.dim() and rng.random() < 0.6:
        dim = rng.randrange(t.dim())
        return rng.choice(
            [f"{text}.flip({dim})", f"{text}[...]", f"{text}.movedim({dim}, 0).movedim(0, {dim})"]
        )
    return f"{text}.view_as({text})"


def permuted(text, t, shape, rng):
    if t.dim() != len(shape) or sorted(t.shape) != sorted(shape) or t.dim() < 2:
        return None
    order, left = [], list(range(t.dim()))
    for size in shape:
        order.append(next(i for i in left if t.shape[i] == size))
        left.remove(order[-1])
    if order == [1, 0] and rng.random() < 0.5:
        return f"{text}.t()"
    return f"{text}.permute({literal(order)[1:-1]})"


def sliced(text, t, shape, rng):
    """A window of it, perhaps with steps; dimensions that are too many are selected from."""
    extra = t.dim() - len(shape)
    if extra < 0 or any(a < b for a, b in zip(t.shape[extra:], shape, strict=True)):
        return None
    if any(size <= 0 for size in t.shape[:extra]):  # below 0: torch's resize_ does not ask
        return None
    items = [str(rng.randrange(size)) for size in t.shape[:extra]]
    for has, wants in zip(t.shape[extra:], shape, strict=True):
        if has == wants:
            items.append(":")
            continue
        step = 2 if wants and has >= 2 * wants and rng.random() < 0.5 else 1
        start = rng.randint(0, has - (wants - 1) * step - 1) if wants else 0
        stop = start + (wants - 1) * step + 1 if wants else start
        items.append(f"{start}:{stop}" + (f":{step}" if step > 1 else ""))
    while len(items) > 1 and items[-1] == ":":
        items.pop()
    return f"{text}[{', '.join(items)}]"


def reshaped(text, t, shape, rng):
    numel = torch.Size(shape).numel()
    if numel != t.numel():
        return None
    if t.is_contiguous() and rng.random() < 0.5:
        return f"{text}.view({shape_text(shape)})"
    return f"{text}.reshape({shape_text(shape)})"


def expanded(text, t, shape, rng):
    if t.dim() > len(shape) or not t.dim():
        return None
    behind = shape[len(shape) - t.dim() :]
    if all(a in (1, b) for a, b in zip(t.shape, behind, strict=True)):
        return f"{text}.expand({shape_text(shape)})"
    return None


def cut(text, t, shape, rng):
    numel = torch.Size(shape).numel()
    if not 0 < numel < t.numel():
        return None
    start = rng.randint(0, t.numel() - numel)
    return f"{text}.reshape(-1)[{start}:{start + numel}].view({shape_text(shape)})"


def strided(text, t, shape, rng):
    """A window on its memory that no other view makes; its elements may overlap."""
    if not t.is_contiguous() or t.is_conj() or t.is_neg() or not shape or 0 in shape:
        return None
    strides = tuple(rng.choice((0, 1, 1, 2, 3)) for _ in shape)
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if last >= t.numel() or rng.random() < 0.5:
        return None
    offset = t.storage_offset() + rng.randint(0, t.numel() - 1 - last)
    return f"{text}.as_strided({shape_text(shape)}, {shape_text(strides)}, {offset})"


def repeated(text, t, shape):
    numel = torch.Size(shape).numel()
    if not t.numel():
        return None
    times = -(-numel // t.numel())
    return f"{text}.reshape(-1).repeat({times})[:{numel}].reshape({shape_text(shape)})"


def overlaps(t: torch.Tensor, refused: bool = True) -> bool:
    """Whether elements share memory; `refused`: other than by strides of zero, which eager sees."""
    if not t.numel():
        return False
    sizes = [(st, sz) for sz, st in zip(t.shape, t.stride(), strict=True) if sz > 1]
    sizes = [(stride, size) for stride, size in sizes if stride or not refused]
    reach = 0
    for stride, size in sorted(sizes):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def is_dense(t: torch.Tensor) -> bool:
    return torch.ops.aten.is_non_overlapping_and_dense(t)


def collide(target, value) -> bool:
    """Whether a write could change what it still has to read, and eager does not see it.

    It refuses operands that share a part of their memory, but looks at dense ones only; what it
    gives for others is a matter of the order of its loops.
    """
    if not (isinstance(target, torch.Tensor) and isinstance(value, torch.Tensor)):
        return False
    if target.untyped_storage()._cdata != value.untyped_storage()._cdata:
        return False
    same = (value.data_ptr(), value.shape, value.stride())
    if (target.data_ptr(), target.shape, target.stride()) == same:
        return False
    return not (is_dense(target) and is_dense(value))


def fresh(t: torch.Tensor, rng: random.Random) -> str:
    """Another tensor like a sample's: small ones and indices are written out.

    A GPU's kernels assert that numbers are in range, and a process ends where they are not.
    """
    kind = t.dtype
    is_float = kind.is_floating_point or kind.is_complex
    if not t.numel() or (t.numel() > SHORT or (is_float and rng.random() < 0.6)):
        made = f"normal({shape_text(t.shape)}, {rng.randrange(1000)}, {kind})"
        return within(made, t) if on_gpu() else made
    return f"data({literal(rounded(t.detach().resolve_conj().resolve_neg().tolist()))}, {kind})"


def within(text: str, t: torch.Tensor) -> str:
    """Keeps a variable in the range that a sample's numbers have: indices, probabilities."""
    if not t.numel() or t.is_complex() or t.dtype == torch.bool or t.dtype in UNSIGNED:
        return text
    low, high = t.min().item(), t.max().item()
    if not (t.is_floating_point()):
        return f"{text}.clamp({low}, {high})" if low >= 0 else text
    if low >= 0 and high <= 1:
        return f"{text}.sigmoid()"
    return f"{text}.abs()" if low >= 0 else text
