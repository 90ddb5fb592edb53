"""Memory that tensors of the device hold."""

import json
from collections import OrderedDict
from typing import Any

import torch

from torch_lazuli.devices import device_index
from torch_lazuli.operators import ops

Device = torch.device | str | int | None


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Counters of the device's memory, by the names of `torch.cuda.memory_stats`; sizes are bytes.

    With the CPU behind the device all memory is in the pool "all".
    """
    return OrderedDict(sorted(json.loads(ops._memory_stats(device_index(device))).items()))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """What `memory_stats` gives, as a dictionary of dictionaries."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def memory_allocated(device: Device = None) -> int:
    """Bytes that live buffers hold. A tensor that was never computed holds none."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes held at once since the start or `reset_peak_memory_stats`."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Device = None) -> int:
    """Bytes that live buffers hold or that are kept for reuse."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes reserved at once since the start or `reset_peak_memory_stats`."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: Device = None) -> None:
    """Starts counting the peaks anew from what is held now."""
    ops._reset_peak_memory_stats(device_index(device))


def reset_max_memory_allocated(device: Device = None) -> None:
    """The same as `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Starts counting anew what was allocated and freed in all."""
    ops._reset_accumulated_memory_stats(device_index(device))


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the backing device."""
    ops._empty_cache()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of the backing device's memory.

    Raises ValueError for a device of another type.
    """
    return ops._memory_info(device_index(device))


_ROWS = (
    ("Allocated memory", "allocated_bytes", True),
    ("Reserved memory", "reserved_bytes", True),
    ("Allocations", "allocation", False),
    ("Blocks from the system", "segment", False),
)
_COLUMNS = ("current", "peak", "allocated", "freed")


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of the most important counters, to be shown to a person; MiB or counts.

    `abbreviated` leaves out what concerns the number of blocks.
    """
    stats = memory_stats(device)
    heads = "".join(f"{head:>14}" for head in ("current", "peak", "total taken", "total freed"))
    lines = [f"Memory of lazuli:{device_index(device)}".ljust(26) + heads]
    for title, name, is_size in _ROWS[:2] if abbreviated else _ROWS:
        values = (stats[f"{name}.all.{column}"] for column in _COLUMNS)
        shown = (f"{v / 2**20:.1f} MiB" if is_size else str(v) for v in values)
        lines.append(title.ljust(26) + "".join(f"{text:>14}" for text in shown))
    return "\n".join(lines)
