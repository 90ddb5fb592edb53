"""torch.cuda's streams and events."""

import time
from typing import Any

import torch

from torch_lazuli.takeover.policy import OWN


class Stream(torch.Stream):
    """A queue of work on the device."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, device=OWN, priority=priority)

    def wait_stream(self, stream) -> None:
        """Makes what follows wait for what was recorded for `stream`."""
        torch.Stream.wait_stream(self, stream)


class Event:
    """A point in a stream that can be waited for.

    An event with `enable_timing` waits for what was recorded before it: only then it has a time.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_
    ):
        self._is_timed = enable_timing
        self._event = torch.Event(device=OWN)
        self._seconds: float | None = None

    def record(self, stream: Any = None) -> None:
        """Marks the point in `stream`, or in the current one."""
        if self._is_timed:
            torch.lazuli.synchronize()
            self._seconds = time.perf_counter()
        self._event.record(*(() if stream is None else (stream,)))

    def wait(self, stream: Any = None) -> None:
        """Makes what follows in `stream` wait for the point."""
        self._event.wait(*(() if stream is None else (stream,)))

    def query(self) -> bool:
        """Whether the point was reached."""
        return self._event.query()

    def synchronize(self) -> None:
        """Waits for the point."""
        torch.lazuli.synchronize()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds until another event. Raises ValueError if one of them has no time."""
        if self._seconds is None or end_event._seconds is None:
            raise ValueError("Both events must be recorded, and made with enable_timing=True")
        return 1000 * (end_event._seconds - self._seconds)


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
