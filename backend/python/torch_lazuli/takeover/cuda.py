"""What `torch.cuda` says of its device, and the names in it that are replaced.

Nothing here loads the plugin before the device is used: `is_available` is asked by every program.
"""

import types
from typing import Any

import torch

from torch_lazuli.operators import ops
from torch_lazuli.takeover import cuda_graphs, cuda_memory, cuda_streams, cuda_types
from torch_lazuli.takeover.messages import say_once
from torch_lazuli.takeover.policy import cuda_count, cuda_device

# Of a CPU: the least that programs ask for before they use bfloat16.
_CAPABILITY = (8, 0)
_original = types.SimpleNamespace(
    get_device_properties=torch.cuda.get_device_properties, is_available=torch.cuda.is_available
)


def install() -> None:
    """Puts the stand-ins in place."""
    torch.cuda.default_generators = ()
    groups = [_QUERIES, _RANDOM, cuda_memory.FUNCTIONS, cuda_streams.NAMES, cuda_graphs.NAMES]
    for group in (*groups, cuda_types.tensor_types()):
        for name, value in group.items():
            setattr(torch.cuda, name, value)
    if not _original.is_available():
        cuda_graphs.install_tools()


def index_of(device: Any) -> int:
    """The number of a cuda device, given as torch.cuda takes it.

    Raises ValueError for a device of another type, and RuntimeError for one that is not there.
    """
    if device is None:
        return current_device()
    if isinstance(device, int):
        index = device
    else:
        named = torch.device(device)
        if named.type not in ("cuda", "lazuli"):
            raise ValueError(f"Expected a cuda device, but got: {named}")
        index = current_device() if named.index is None or named.type != "cuda" else named.index
    if index >= cuda_count():
        raise RuntimeError(f"CUDA error: invalid device ordinal: {index}")
    return index


def is_available() -> bool:
    """Whether there is a cuda device: lazuli stands for one."""
    return torch.lazuli.is_available()


def device_count() -> int:
    """One device for each process of torchrun."""
    return cuda_count()


def current_device() -> int:
    """The number of this process's device."""
    return cuda_device().index


def set_device(device: Any) -> None:
    """Checks the number; there is one device."""
    index_of(device)


class Device:
    """`torch.cuda.device`: a context in which a device is current; there is one."""

    def __init__(self, device: Any):
        self.idx = index_of(device)
        self.prev_idx = self.idx

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *exception) -> bool:
        return False


class DeviceOf(Device):
    """`torch.cuda.device_of`: the same for a tensor's device."""

    def __init__(self, obj: torch.Tensor):
        super().__init__(None)


def get_device_properties(device: Any = None):
    """The GPU's properties, or what is known of the CPU; sizes are bytes."""
    index_of(device)
    if ops._backing().type == "cuda":
        return _original.get_device_properties(0)
    return types.SimpleNamespace(
        name=get_device_name(),
        major=_CAPABILITY[0],
        minor=_CAPABILITY[1],
        total_memory=torch.lazuli.mem_get_info()[1],
        multi_processor_count=torch.get_num_threads(),
        max_threads_per_multi_processor=1,
        warp_size=1,
        is_integrated=1,
        is_multi_gpu_board=0,
        regs_per_multiprocessor=0,
        shared_memory_per_block=0,
        shared_memory_per_multiprocessor=0,
        L2_cache_size=0,
        clock_rate=0,
        memory_clock_rate=0,
        memory_bus_width=0,
        gcnArchName="",
        uuid="",
    )


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The GPU's compute capability; of a CPU that of the first GPUs with bfloat16."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_device_name(device: Any = None) -> str:
    """A name for a person to read."""
    index_of(device)
    if ops._backing().type == "cuda":
        return _original.get_device_properties(0).name
    return "Lazuli (CPU)"


def _measured(what: str):
    def measure(device: Any = None) -> int:
        say_once(f"torch.cuda.{what} is not known; it is 0 here")
        return 0

    return measure


def _none(*args, **kwargs) -> None:
    """Nothing has to be done."""


def synchronize(device: Any = None) -> None:
    """Waits until everything that was recorded is computed."""
    index_of(device)
    torch.lazuli.synchronize()


_QUERIES: dict[str, Any] = {
    "is_available": is_available,
    "is_initialized": lambda: True,
    "is_bf16_supported": lambda including_emulation=True: True,
    "is_tf32_supported": lambda: False,
    "device_count": device_count,
    "current_device": current_device,
    "set_device": set_device,
    "device": Device,
    "_DeviceGuard": Device,
    "device_of": DeviceOf,
    "get_device_properties": get_device_properties,
    "get_device_capability": get_device_capability,
    "get_device_name": get_device_name,
    "get_arch_list": lambda: [],
    "get_gencode_flags": lambda: "",
    "can_device_access_peer": lambda device, peer_device: False,
    "synchronize": synchronize,
    "init": _none,
    "_lazy_init": _none,
    "_is_in_bad_fork": lambda: torch.lazuli._is_in_bad_fork(),
    "ipc_collect": _none,
    "set_sync_debug_mode": _none,
    "get_sync_debug_mode": lambda: 0,
    **{
        what: _measured(what)
        for what in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage")
    },
}


def _state_of(device: Any = "cuda") -> torch.Tensor:
    return torch.lazuli.get_rng_state()


def _set_state(new_state: torch.Tensor, device: Any = "cuda") -> None:
    torch.lazuli.set_rng_state(torch._C.TensorBase.cpu(new_state))


def _set_states(new_states) -> None:
    for state in list(new_states)[:1]:
        _set_state(state)


def _seed(seed: int) -> None:
    torch.lazuli.manual_seed_all(int(seed))


_RANDOM: dict[str, Any] = {
    "manual_seed": _seed,
    "manual_seed_all": _seed,
    "seed": lambda: torch.lazuli.seed(),
    "seed_all": lambda: torch.lazuli.seed_all(),
    "initial_seed": lambda: torch.lazuli.initial_seed(),
    "get_rng_state": _state_of,
    "get_rng_state_all": lambda: [_state_of() for _ in range(cuda_count())],
    "set_rng_state": _set_state,
    "set_rng_state_all": _set_states,
}
