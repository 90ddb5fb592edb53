"""The names that a program's statements may use, on one side.

A side is a device and how its numbers are stored. On the wide side the names of narrow types mean
the widest ones, so that the same text computes in double precision; `normal` and `data` still
round what they make to the type that the statement names, so that all sides begin with the same
numbers.
"""

import copy
import dataclasses
import os

import torch
import torch.autograd.forward_ad
import torch.nn.functional
import torch.utils.checkpoint
from differential import Double, Mutating, Several, Viewing

NARROW = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
COMPLEX = {"C64": torch.complex64, "C128": torch.complex128}
INTEGERS = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
}
TYPES = {**INTEGERS, **NARROW, **COMPLEX}
NAME_OF = {dtype: name for name, dtype in TYPES.items()}
WIDE = {**dict.fromkeys(NARROW, torch.float64), **dict.fromkeys(COMPLEX, torch.complex128)}


@dataclasses.dataclass(frozen=True)
class Side:
    name: str
    device: str
    wide: bool = False


EAGER = Side("eager", "cpu")
EXACT = Side("eager in double precision", "cpu", wide=True)
LAZULI = Side("lazuli", "lazuli")
EAGER_ON_GPU = Side("eager on a GPU", "cuda")


def on_gpu() -> bool:
    """Whether a GPU backs lazuli: then eager on the CPU is the oracle all the same.

    The library is not asked: it would start the driver, and then no fork could.
    """
    return os.environ.get("LAZULI_BACKING") == "cuda"


class OperatorsByName(dict):
    """Those of OpInfo's functions that are no public name of torch's."""

    def __missing__(self, name: str):
        from fuzz.catalog import operators

        self[name] = operators()[name].op
        return self[name]


OPERATORS = OperatorsByName()


def numbers(shape, seed: int, dtype: torch.dtype) -> torch.Tensor:
    """Normal random numbers of any type, on the host; integers are small."""
    source = torch.Generator().manual_seed(seed)
    drawn = torch.complex128 if dtype.is_complex else torch.float64
    x = torch.randn(shape, generator=source, dtype=drawn)
    if dtype == torch.bool:
        return x > 0
    if dtype in NAME_OF and not (dtype.is_floating_point or dtype.is_complex):
        x = (x * 3).round().abs() if dtype == torch.uint8 else (x * 3).round()
    return x.to(dtype)


def dense(gradients) -> list:
    """Gradients with strides and memory of their own: nobody promises what those are."""
    keep = torch.contiguous_format
    return [g if g is None else g.clone(memory_format=keep) for g in gradients]


def scope(side: Side, turn: int = 0) -> dict:
    """`turn` counts the runs of a program: each has other numbers, and other sizes where `n` is."""
    types = {**TYPES, **WIDE} if side.wide else TYPES
    widened = {TYPES[name]: dtype for name, dtype in types.items()}

    def normal(shape, seed, dtype=torch.float32):
        return numbers(shape, seed + 1000 * turn, dtype).to(widened[dtype]).to(side.device)

    def data(values, dtype=torch.float32):
        return torch.tensor(values, dtype=dtype).to(widened[dtype]).to(side.device)

    def twin(x, seed):
        """Other numbers of the same kind; in every second turn, another view of the same ones."""
        if turn % 2:
            return x.detach()
        nominal = torch.float64 if side.wide else x.dtype
        nominal = torch.complex128 if side.wide and x.is_complex() else nominal
        exact = not (x.is_floating_point() or x.is_complex())
        return numbers(x.shape, seed, x.dtype if exact else nominal).to(x.dtype).to(side.device)

    def module(made, seed):
        """The module with new tensors, and weights that depend on the seed alone."""
        for i, part in enumerate(made.modules()):
            for name, p in part.named_parameters(recurse=False):
                drawn = numbers(p.shape, seed + 1000 * turn + i, torch.float32) * 0.5
                part._parameters[name] = torch.nn.Parameter(drawn.to(types["F32"]).to(side.device))
            for name, t in part.named_buffers(recurse=False):
                kind = types["F32"] if t.is_floating_point() else t.dtype
                part._buffers[name] = t.to(side.device, kind).clone()
        if isinstance(made, torch.nn.RNNBase):
            made._init_flat_weights()
        return made

    return {
        **types,
        "torch": torch,
        "F": torch.nn.functional,
        "nn": torch.nn,
        "copy": copy,
        "fwad": torch.autograd.forward_ad,
        "checkpoint": torch.utils.checkpoint.checkpoint,
        "Double": Double,
        "Mutating": Mutating,
        "Several": Several,
        "Viewing": Viewing,
        "dense": dense,
        "OPERATORS": OPERATORS,
        "dev": torch.device(side.device),
        "n": 3 + turn,
        "normal": normal,
        "data": data,
        "twin": twin,
        "module": module,
        "nan": float("nan"),
        "inf": float("inf"),
    }
