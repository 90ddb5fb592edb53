"""Which lazuli device is current, and waiting for it."""

import dataclasses
import os
import platform

import torch

from torch_lazuli.operators import ops

TYPE = "lazuli"


def device_index(which: torch.device | str | int | None) -> int:
    """The number of a device given in any of the usual ways; the current one for None.

    Raises ValueError for a device of another type.
    """
    if which is None:
        return current_device()
    if isinstance(which, int):
        return which
    which = torch.device(which)
    if which.type != TYPE:
        raise ValueError(f"Expected a {TYPE} device, but got: {which}")
    return current_device() if which.index is None else which.index


def is_available() -> bool:
    """Whether the device can be used: true once the plugin is loaded."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether the device was set up; it always is."""
    return True


def device_count() -> int:
    """How many lazuli devices there are: as many as backing devices."""
    return ops._device_count()


def current_device() -> int:
    """The number of the device that `device="lazuli"` means."""
    return ops._current_device()


def set_device(device: torch.device | str | int) -> None:
    """Makes a device the current one; a negative number changes nothing.

    Raises ValueError for a device of another type, RuntimeError for one that is not there.
    """
    index = device_index(device)
    if index >= 0:
        ops._set_device(index)


def get_device_name(device: torch.device | str | int | None = None) -> str:
    """A name for the device, to be shown to a person."""
    return f"{TYPE}:{device_index(device)}"


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """What the device is made of. The names are those of torch.cuda's."""

    name: str
    major: int
    minor: int
    total_memory: int  # bytes
    multi_processor_count: int  # cores of the CPU that may be used, or multiprocessors of the GPU


def get_device_properties(device: torch.device | str | int | None = None) -> DeviceProperties:
    """What the backing device is made of.

    Raises ValueError for a device of another type.
    """
    index = device_index(device)
    backing = ops._backing()
    if backing.type != "cpu":
        found = torch.get_device_module(backing).get_device_properties(backing)
        names = (field.name for field in dataclasses.fields(DeviceProperties))
        return DeviceProperties(**{name: getattr(found, name) for name in names})
    _, total = ops._memory_info(index)
    name = platform.processor() or platform.machine()
    return DeviceProperties(name, 0, 0, total, len(os.sched_getaffinity(0)))


def get_device_capability(device: torch.device | str | int | None = None) -> tuple[int, int]:
    """The compute capability of the GPU behind the device; (0, 0) where that is the CPU."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: int, peer_device: int) -> bool:
    """Whether a device reads another one's memory: there is no other one."""
    return False


class device:
    """Context manager that makes a device the current one; a negative number changes nothing."""

    def __init__(self, device: torch.device | str | int | None):
        self.idx = device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> "device":
        self.prev_idx = current_device()
        if self.idx >= 0 and self.idx != self.prev_idx:
            ops._set_device(self.idx)
        return self

    def __exit__(self, *exception) -> bool:
        if self.idx >= 0 and self.idx != self.prev_idx:
            ops._set_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager that makes a tensor's device the current one, if it is a lazuli device."""

    def __init__(self, tensor: torch.Tensor):
        super().__init__(tensor.get_device() if tensor.device.type == TYPE else -1)


def synchronize(device: torch.device | str | int | None = None) -> None:
    """Runs everything recorded for a device and waits for it.

    Raises RuntimeError, naming the op and the Python line that recorded it, if that failed.
    """
    ops._synchronize(device_index(device))
