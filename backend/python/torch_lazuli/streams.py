"""Streams and events. On a CPU work has one order: they are accepted and change nothing."""

import torch

from torch_lazuli.devices import TYPE, device_index
from torch_lazuli.operators import ops


class Stream(torch.Stream):
    """A queue of work on a lazuli device."""

    def __new__(cls, device: torch.device | str | int | None = None, priority: int = 0, **kwargs):
        if "stream_id" in kwargs:  # rebuilt from its parts
            return super().__new__(cls, priority=priority, **kwargs)
        device = torch.device(TYPE, device_index(device))
        return super().__new__(cls, device=device, priority=priority, **kwargs)


class _EventType(type):
    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == TYPE


class Event(metaclass=_EventType):
    """A point in a stream that can be waited for and timed.

    What a call gives is a `torch.Event` of the device: torch measures the time only between those.
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: torch.device | str | int | None = None,
    ) -> torch.Event:
        return torch.Event(
            device=torch.device(TYPE, device_index(device)),
            enable_timing=enable_timing,
            blocking=blocking,
            interprocess=interprocess,
        )


def current_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The stream that work is recorded for."""
    return ops._current_stream(device_index(device))


def default_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The stream that is there from the start; on a device with one order of work, the only one."""
    return ops._default_stream(device_index(device))


def is_current_stream_capturing() -> bool:
    """Whether a graph of the work is being captured: never, since steps that repeat are known."""
    return False


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream the current one of its device; None changes nothing."""
    if stream is not None:
        ops._set_stream(stream)


class stream:
    """Context manager that makes a stream the current one; None changes nothing."""

    def __init__(self, stream: torch.Stream | None):
        self.stream = stream
        self.previous: torch.Stream | None = None

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self.previous = current_stream(self.stream.device)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *exception) -> bool:
        set_stream(self.previous)
        return False


StreamContext = stream
