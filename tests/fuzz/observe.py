"""What a user can see of a program's variables: geometry, autograd's facts, aliases, numbers."""

import contextlib

import numpy
import torch

GEOMETRY = """
    dtype shape requires_grad leaf conj neg inference history stride offset version
""".split()  # noqa: SIM905
FREE = ("requires_grad", "leaf", "history", "stride", "offset", "version")


def significant_strides(t: torch.Tensor) -> tuple:
    """The strides that decide where elements lie."""
    if not t.numel():
        return ()
    return tuple(stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1)


def version(t: torch.Tensor) -> int | None:
    try:
        return t._version
    except RuntimeError:  # inference tensors have none
        return None


def geometry(t: torch.Tensor, history: bool = False) -> tuple:
    """What a tensor says of itself, in the order of GEOMETRY; to ask for it ends no trace.

    A node's name is not compared: Lazuli's are its own, and made when somebody asks.
    """
    try:
        leaf, node = t.is_leaf, t.grad_fn if history else None
    except RuntimeError as error:  # a view across no_grad has no history that one may ask for
        leaf, node = str(error)[:40], None
    if t.layout is not torch.strided:
        return (t.dtype, tuple(t.shape), str(t.layout))
    return (
        t.dtype,
        tuple(t.shape),
        t.requires_grad,
        leaf,
        t.is_conj(),
        t.is_neg(),
        t.is_inference(),
        node is not None,
        significant_strides(t),
        t.storage_offset() if t.numel() else 0,
        version(t),
    )


def parts(value, where: str):
    """The tensors and plain values within one, each with its path."""
    if isinstance(value, torch.Tensor):
        yield where, value
        with contextlib.suppress(RuntimeError):  # of a view across no_grad
            if (value.is_leaf or value.retains_grad) and value.grad is not None:
                yield f"{where}.grad", value.grad
    elif isinstance(value, torch.nn.Module):
        for name, t in value.state_dict(keep_vars=True).items():
            yield from parts(t, f"{where}.{name}")
    elif isinstance(value, torch.optim.Optimizer):
        for i, state in enumerate(value.state.values()):
            for name, one in state.items():
                yield from parts(one, f"{where}.state[{i}].{name}")
    elif isinstance(value, list | tuple):
        yield where, f"{type(value).__name__} of {len(value)}"
        for i, one in enumerate(value):
            yield from parts(one, f"{where}[{i}]")
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from parts(one, f"{where}[{key!r}]")
    elif isinstance(value, numpy.ndarray):
        yield where, torch.from_numpy(value.copy())
    elif value is None or isinstance(value, bool | int | float | complex | str):
        yield where, value


def live(namespace: dict, names: set[str]):
    """The parts of a program's variables: of those that the scope did not bring."""
    for name in sorted(names):
        if name in namespace:
            yield from parts(namespace[name], name)


def is_gradient(where: str) -> bool:
    """A gradient's strides, version and memory are those of the formula that made it."""
    return ".grad" in where or where[0] == "h"


def promised(facts: tuple) -> tuple:
    """Of a gradient's geometry what is promised."""
    return tuple(f for f, k in zip(facts, GEOMETRY, strict=False) if k not in FREE)


def geometries(namespace: dict, names: set[str], history: bool = False) -> dict[str, tuple]:
    found = {}
    for where, one in live(namespace, names):
        found[where] = type(one).__name__
        if isinstance(one, torch.Tensor):
            found[where] = geometry(one, history)
            if is_gradient(where):
                found[where] = promised(found[where])
    return found


def aliases(namespace: dict, names: set[str]) -> frozenset:
    """The groups of two and more that share memory."""
    groups = {}
    for where, one in live(namespace, names):
        if isinstance(one, torch.Tensor) and one.layout is torch.strided and not is_gradient(where):
            groups.setdefault(one.untyped_storage()._cdata, []).append(where)
    return frozenset(tuple(group) for group in groups.values() if len(group) > 1)


def value(one):
    """The numbers, on the host and not lazily conjugated."""
    if not isinstance(one, torch.Tensor):
        return one
    there = one.detach().cpu()
    if there.layout is not torch.strided:
        there = there.to_dense()
    return there.resolve_conj().resolve_neg().clone()
