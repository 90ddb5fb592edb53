"""How steps are timed whose results need not be known at once.

The arms take turns. A turn takes several steps, keeps what each of them gives, and ends when all
of that was read. So every step must run within the turn, on whatever arm, and nobody waits between
steps: neither eager on a GPU nor lazuli computes at the call. A turn gives one number, its seconds
divided by its steps. One step before each turn is not timed: it finds the caches as the arm before
left them. Each turn starts from the same seed, so what one arm draws is nothing to the next.
"""

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from benchmarks import harness

Read = Callable[[str, Sequence[object]], object]


def read(arm: str, kept: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Brings the results to the host; whatever else the arm was asked for is done by then."""
    results = [result.cpu() for result in kept]
    harness.synchronize(arm)
    return results


def wait(arm: str, kept: Sequence[object]) -> None:
    """For results that are too large to bring to the host: they are computed, and stay."""
    harness.synchronize(arm)


class Turns:
    """The seconds of a step in each turn, by arm, and what the last turn's steps gave."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.results: dict[str, object] = {}

    def take(self, arm: str, step: Callable[[], object], steps: int, read: Read) -> None:
        if hasattr(step, "take_turn"):  # it follows the protocol in a process of its own
            seconds, self.results[arm] = step.take_turn(steps)
            self.seconds.setdefault(arm, []).append(seconds)
            return
        torch.manual_seed(0)
        read(arm, [step()])
        begin = time.perf_counter()
        kept = [step() for _ in range(steps)]
        self.results[arm] = read(arm, kept)
        self.seconds.setdefault(arm, []).append((time.perf_counter() - begin) / steps)

    def medians(self) -> dict[str, float]:
        return {arm: statistics.median(values) for arm, values in self.seconds.items()}


def take_turns(
    arms: dict[str, Callable[[], object]], rounds: int, steps: int, read: Read = read
) -> Turns:
    """Each arm's turns, in an order that is reversed in every second round."""
    turns = Turns()
    for arm in harness.in_turns(list(arms), rounds):
        turns.take(arm, arms[arm], steps, read)
    return turns
