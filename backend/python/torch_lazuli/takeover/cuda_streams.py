"""torch.cuda's streams and events: those of the device, as torch makes them."""

from typing import Any

import torch

from torch_lazuli import streams
from torch_lazuli.devices import TYPE
from torch_lazuli.takeover.policy import OWN


class _StreamType(type(torch.Stream)):
    """Streams that torch makes are streams too."""

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, torch.Stream) and instance.device.type == TYPE


class Stream(torch.Stream, metaclass=_StreamType):
    """A queue of work on the device."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, device=OWN, priority=priority)


class Event(streams.Event):
    """A point in a stream that can be waited for and timed; a call gives a `torch.Event`."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> torch.Event:
        return super().__new__(cls, enable_timing, blocking, interprocess, OWN)


def _current(device: Any = None):
    return torch.lazuli.current_stream()


def _set(stream: Any) -> None:
    torch.lazuli.set_stream(stream)


class StreamContext:
    """`with torch.cuda.stream(s)`; None changes nothing."""

    def __init__(self, stream: Any):
        self.stream = stream
        self._context: Any = None

    def __enter__(self):
        self._context = torch.lazuli.stream(self.stream)
        return self._context.__enter__()

    def __exit__(self, *exception):
        return self._context.__exit__(*exception)


NAMES: dict[str, Any] = {
    "Stream": Stream,
    "Event": Event,
    "StreamContext": StreamContext,
    "stream": StreamContext,
    "current_stream": _current,
    "default_stream": _current,
    "set_stream": _set,
}
