"""Is lazuli the device that the user asked for?

Libraries that choose a device themselves get lazuli as the answer only if the user named it:

- LAZULI_TAKE_OVER is set: the whole program is to run on lazuli;
- ACCELERATE_TORCH_DEVICE names it: accelerate's own way to name a device;
- it is torch's default device: `torch.set_default_device("lazuli")`, `with torch.device("lazuli")`;
- a model that a library gets is on it already: `choosing(...)` says so for a while.

That Lazuli is installed names nothing.
"""

import contextlib
import os
from collections.abc import Iterator

import torch

from torch_lazuli import takeover
from torch_lazuli.devices import TYPE

_chosen: list[str] = []


def is_lazuli(device: torch.device | str | int | None) -> bool:
    """Whether a device, or the name of one, is a lazuli device."""
    if isinstance(device, str):
        return device.split(":")[0] == TYPE
    return isinstance(device, torch.device) and device.type == TYPE


def named() -> str | None:
    """How the user asked for lazuli, in words; None: not at all, or for another device."""
    if _chosen:
        return _chosen[-1]
    if takeover.asked():
        return takeover.VARIABLE
    if (device := os.environ.get("ACCELERATE_TORCH_DEVICE")) is not None:
        return "ACCELERATE_TORCH_DEVICE" if is_lazuli(device) else None
    return "torch's default device" if is_lazuli(torch.get_default_device()) else None


@contextlib.contextmanager
def choosing(how: str) -> Iterator[None]:
    """Within it lazuli is named: by a model that is there already, say."""
    _chosen.append(how)
    try:
        yield
    finally:
        _chosen.pop()


def is_on_lazuli(module: object) -> bool:
    """Whether a module has its parameters, or the first of them, on lazuli."""
    if not isinstance(module, torch.nn.Module):
        return False
    tensor = next(module.parameters(), None)
    if tensor is None:
        tensor = next(module.buffers(), None)
    return tensor is not None and tensor.device.type == TYPE
