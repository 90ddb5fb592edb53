"""What happened on the device at one place of the program."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One kind of thing that happened at one place."""

    kind: str
    """What sort of thing: a sync, a compilation, an external call, ..."""
    what: str
    """Which one: a sync's reason, an op's name."""
    count: int
    """How often it happened."""
    time_us: float
    """How long it took in all, in microseconds."""
    where: str
    """The Python line, as file:line; empty where it is not known."""
