"""Where a call runs: on cpu, on lazuli, or on cpu in the widest type as the arbiter of rounding.

A side converts what an OpInfo sample holds; two sides that convert the same sample start from the
same numbers in the same geometry.
"""

import dataclasses
from collections.abc import Callable

import torch
from torch.utils._pytree import tree_map

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


def same_memory(t: torch.Tensor, device: str) -> torch.Tensor:
    """A copy with the same strides and offset, over a copy of all of its memory."""
    if t.layout is not torch.strided:
        return t.detach().clone().to(device)
    memory = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    there = memory.clone().to(device).as_strided(t.size(), t.stride(), t.storage_offset())
    if t.is_conj():
        there = there.conj()
    return torch._neg_view(there) if t.is_neg() else there


def widened(t: torch.Tensor) -> torch.Tensor:
    return t.detach().clone().to(WIDE.get(t.dtype, t.dtype))


@dataclasses.dataclass(frozen=True)
class Side:
    name: str
    device: str
    copy: Callable[[torch.Tensor], torch.Tensor]

    def tensor(self, t: torch.Tensor) -> torch.Tensor:
        return self.copy(t).detach().requires_grad_(t.requires_grad)

    def convert(self, tree, tensor=None):
        """The tree with its tensors here, and with this side's device wherever cpu is named."""
        tensor = tensor or self.tensor

        def leaf(x):
            if isinstance(x, torch.Tensor):
                return tensor(x)
            if isinstance(x, torch.device):
                return torch.device(self.device)
            return self.device if isinstance(x, str) and x == "cpu" else x

        return tree_map(leaf, tree)


HOST = Side("cpu", "cpu", lambda t: same_memory(t, "cpu"))
DEVICE = Side("lazuli", "lazuli", lambda t: same_memory(t, "lazuli"))
ARBITER = Side("arbiter", "cpu", widened)
