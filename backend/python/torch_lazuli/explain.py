"""What happened on the device since somebody last asked, by Python line."""

import json

from torch_lazuli import reference
from torch_lazuli.advice import Advice, advise
from torch_lazuli.event import Event
from torch_lazuli.operators import ops

_REFERENCE = "reference mode (LAZULI_KERNELS=eager): all kernels are torch's, as external calls\n"


class Explanation:
    """What `torch.lazuli.explain()` found: `print` it, or read `.events` and `.advice`."""

    def __init__(self, events: list[Event]):
        self.events = events
        self.advice: list[Advice] = [] if reference.is_on() else advise(events)

    def __str__(self) -> str:
        if reference.is_on():
            return _REFERENCE + self._table()
        advice = "".join(f"advice: {one}\n" for one in self.advice)
        return advice + self._table()

    def _table(self) -> str:
        if not self.events:
            return "nothing happened since the last call"
        rows = [("kind", "what", "count", "time", "where")]
        for event in sorted(self.events, key=lambda e: (e.kind, -e.time_us, -e.count)):
            time = _readable_time(event.time_us)
            rows.append((event.kind, event.what, str(event.count), time, event.where))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        return "\n".join(
            f"{kind:<{widths[0]}}  {what:<{widths[1]}}  {count:>{widths[2]}}  "
            f"{time:>{widths[3]}}  {where}".rstrip()
            for kind, what, count, time, where in rows
        )

    def __repr__(self) -> str:
        return str(self)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self):
        return iter(self.events)


def _readable_time(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.2f} s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.2f} ms"
    return f"{microseconds:.0f} us"


def explain() -> Explanation:
    """What happened since the last call, by Python line, and advice on it.

    Syncs, compilations, external calls, new traces, and what else costs time or memory. Events of
    the kind "kept history" say what is alive at this moment, so they come again in the next call.
    """
    return Explanation([Event(**event) for event in json.loads(ops._explain())])
