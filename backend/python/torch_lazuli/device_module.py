"""`torch.lazuli`: what a user, and torch itself, calls on the device.

The names that torch.cuda has too mean the same here. Those of Lazuli alone are `metrics`,
`reset_metrics`, `explain`, `report`, `shadow` and `config`.
"""

import torch

from torch_lazuli.config import config
from torch_lazuli.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
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
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from torch_lazuli.metrics import metrics, reset_metrics
from torch_lazuli.random import (
    device_generators,
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
from torch_lazuli.report import Report, report
from torch_lazuli.shadow import ShadowMismatch, ShadowReport, shadow
from torch_lazuli.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "Report",
    "ShadowMismatch",
    "ShadowReport",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "config",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "dump",
    "empty_cache",
    "explain",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "metrics",
    "report",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
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

default_generators = device_generators()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that used a GPU, which CUDA cannot bear."""
    return torch.ops.lazuli._has_lost_gpu()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that autocast may use on the device."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors can be computed on: always."""
    return True


def init() -> None:
    """Nothing: what needs the plugin loads it, as asking for this function did."""


def ipc_collect() -> None:
    """Nothing: other processes get copies, so none holds memory of this one."""


def is_tf32_supported() -> bool:
    """Whether products may round their factors to TF32: where a GPU is behind the device."""
    return torch.ops.lazuli._backing().type == "cuda"


def get_arch_list() -> list[str]:
    """The kinds of GPU that kernels were built for beforehand: none, they are made when needed."""
    return []


def get_gencode_flags() -> str:
    """Flags for a compiler of CUDA's sources: none, as in `get_arch_list`."""
    return ""
