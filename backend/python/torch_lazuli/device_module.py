"""`torch.lazuli`: what a user, and torch itself, calls on the device.

The names that torch.cuda has too mean the same here. Those of Lazuli alone are `metrics`,
`reset_metrics`, `explain`, `shadow` and `config`.
"""

import torch

from torch_lazuli.config import config
from torch_lazuli.devices import (
    current_device,
    device,
    device_count,
    device_of,
    get_device_name,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from torch_lazuli.dump import dump
from torch_lazuli.explain import explain
from torch_lazuli.memory import (
    empty_cache,
    max_memory_allocated,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
)
from torch_lazuli.metrics import metrics, reset_metrics
from torch_lazuli.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_lazuli.shadow import ShadowMismatch, ShadowReport, shadow
from torch_lazuli.streams import Event, Stream, current_stream, set_stream, stream

__all__ = [
    "Event",
    "ShadowMismatch",
    "ShadowReport",
    "Stream",
    "config",
    "current_device",
    "current_stream",
    "device",
    "device_count",
    "device_of",
    "dump",
    "empty_cache",
    "explain",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "metrics",
    "reset_metrics",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "shadow",
    "stream",
    "synchronize",
]


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that used a GPU, which CUDA cannot bear."""
    return torch.ops.lazuli._has_lost_gpu()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that autocast may use on the device."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors can be computed on: always."""
    return True
