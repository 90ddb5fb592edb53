"""Memory that tensors of the device hold."""

import json
import os
from typing import Any

import torch

from torch_lazuli.devices import device_index
from torch_lazuli.operators import ops


def memory_stats(device: torch.device | str | int | None = None) -> dict[str, Any]:
    """Counters of the device's memory, by name; sizes are bytes."""
    return json.loads(ops._memory_stats(device_index(device)))


def memory_allocated(device: torch.device | str | int | None = None) -> int:
    """Bytes that live buffers hold. A tensor that was never computed holds none."""
    return memory_stats(device)["allocated_bytes.current"]


def max_memory_allocated(device: torch.device | str | int | None = None) -> int:
    """The most bytes held at once since the start or `reset_peak_memory_stats`."""
    return memory_stats(device)["allocated_bytes.peak"]


def memory_reserved(device: torch.device | str | int | None = None) -> int:
    """Bytes that live buffers hold or that are kept for reuse."""
    return memory_stats(device)["reserved_bytes.current"]


def reset_peak_memory_stats(device: torch.device | str | int | None = None) -> None:
    """Starts counting the peak anew from what is held now."""
    ops._reset_peak_memory_stats(device_index(device))


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the backing device."""
    ops._empty_cache()


def mem_get_info(device: torch.device | str | int | None = None) -> tuple[int, int]:
    """Free and total bytes of the backing device's memory.

    Raises ValueError for a device of another type.
    """
    device_index(device)
    backing = ops._backing()
    if backing.type != "cpu":
        return torch.get_device_module(backing).mem_get_info(backing)
    page = os.sysconf("SC_PAGE_SIZE")
    return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
