"""torch.cuda's statistics of memory, and torch.accelerator's: those of the device."""

from collections import OrderedDict
from typing import Any

import torch


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Counters by their names in torch.cuda, such as "allocated_bytes.all.peak"; bytes."""
    own = torch.lazuli.memory_stats()
    stats = OrderedDict(own)
    for name, value in own.items():
        kind, _, what = name.rpartition(".")
        if kind.endswith("_bytes"):
            stats[f"{kind}.all.{what}"] = value
    stats.setdefault("reserved_bytes.all.peak", max_memory_reserved())
    return OrderedDict(sorted(stats.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same, a dictionary for each part of a name."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats().items():
        *parts, last = name.split(".")
        inner = nested
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def max_memory_reserved(device: Any = None) -> int:
    """Bytes: the device keeps no peak of what it reserves, so the larger of what it knows."""
    return max(torch.lazuli.memory_reserved(), torch.lazuli.max_memory_allocated())


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counters for a person to read."""
    lines = [f"{name:<40} {value:>16}" for name, value in torch.lazuli.memory_stats().items()]
    return "\n".join(["lazuli: memory, bytes", *lines])


def _none(*args, **kwargs) -> None:
    """Nothing has to be done."""


def _of_device(name: str):
    def ask(device: Any = None):
        return getattr(torch.lazuli, name)()

    ask.__name__ = name
    return ask


_empty_cache = lambda: torch.lazuli.empty_cache()  # noqa: E731
_allocated, _largest = _of_device("memory_allocated"), _of_device("max_memory_allocated")
_reserved, _reset = _of_device("memory_reserved"), _of_device("reset_peak_memory_stats")

FUNCTIONS: dict[str, Any] = {
    "memory_allocated": _allocated,
    "max_memory_allocated": _largest,
    "memory_reserved": _reserved,
    "max_memory_reserved": max_memory_reserved,
    "memory_cached": _reserved,
    "max_memory_cached": max_memory_reserved,
    "memory_stats": memory_stats,
    "memory_stats_as_nested_dict": memory_stats_as_nested_dict,
    "memory_summary": memory_summary,
    "memory_snapshot": lambda *args, **kwargs: [],
    "mem_get_info": _of_device("mem_get_info"),
    "device_memory_used": _allocated,
    "reset_peak_memory_stats": _reset,
    "reset_max_memory_allocated": _reset,
    "reset_max_memory_cached": _reset,
    "reset_accumulated_memory_stats": _none,
    "empty_cache": _empty_cache,
    "set_per_process_memory_fraction": _none,
    "list_gpu_processes": lambda device=None: "",
}
_OF_ACCELERATOR = (
    "empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
)  # fmt: skip


def install_for_accelerator() -> None:
    """Puts the same in place in torch.accelerator, whose own are for torch's allocators."""
    for name in _OF_ACCELERATOR:
        if hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, FUNCTIONS[name])
    if hasattr(torch.accelerator, "get_memory_info"):
        torch.accelerator.get_memory_info = FUNCTIONS["mem_get_info"]
