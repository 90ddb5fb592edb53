"""torch.cuda's statistics of memory: those of the device."""

from typing import Any

import torch

# What the device's module has under the same name, for the one device that there is.
_SAME = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "memory_stats", "memory_stats_as_nested_dict", "mem_get_info", "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
)  # fmt: skip
_OLDER = {
    "memory_cached": "memory_reserved",
    "max_memory_cached": "max_memory_reserved",
    "device_memory_used": "memory_allocated",
    "reset_max_memory_allocated": "reset_peak_memory_stats",
    "reset_max_memory_cached": "reset_peak_memory_stats",
}


def _of_device(name: str):
    def ask(device: Any = None):
        return getattr(torch.lazuli, name)()

    ask.__name__ = name
    return ask


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counters for a person to read."""
    return torch.lazuli.memory_summary(abbreviated=abbreviated)


def _none(*args, **kwargs) -> None:
    """Nothing has to be done."""


FUNCTIONS: dict[str, Any] = {
    **{name: _of_device(name) for name in _SAME},
    **{older: _of_device(name) for older, name in _OLDER.items()},
    "memory_summary": memory_summary,
    "memory_snapshot": lambda *args, **kwargs: [],
    "empty_cache": lambda: torch.lazuli.empty_cache(),
    "set_per_process_memory_fraction": _none,
    "list_gpu_processes": lambda device=None: "",
}
