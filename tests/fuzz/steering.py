"""Which operator should take which operator's result: all pairs of the common ones, in slices.

Program k of a run goes for the k-th few pairs of a list that the run's seed has shuffled, so a
program depends on nothing but the two numbers, and a long run meets each pair once before it meets
one again. `Coverage` counts what pairs programs really had.
"""

import functools
import itertools
import json
import random
from pathlib import Path

from fuzz import common_ops

FEW = 3  # pairs a program


@functools.cache
def pairs(seed: int) -> list[tuple[str, str]]:
    found = list(itertools.product(common_ops.common(), repeat=2))
    random.Random(seed).shuffle(found)
    return found


def targets(seed: int, k: int) -> list[tuple[str, str]]:
    order = pairs(seed)
    return [order[(k * FEW + i) % len(order)] for i in range(FEW)]


class Coverage:
    def __init__(self):
        self.met: dict[tuple[str, str], int] = {}
        self.used: dict[str, int] = {}

    def add(self, found):
        for pair in map(tuple, found):
            self.met[pair] = self.met.get(pair, 0) + 1
            self.used[pair[1]] = self.used.get(pair[1], 0) + 1

    def common(self) -> tuple[int, int]:
        names = set(common_ops.common())
        return sum(a in names and b in names for a, b in self.met), len(names) ** 2

    def __str__(self):
        met, all_ = self.common()
        names = set(common_ops.common())
        return (
            f"{met} of {all_} pairs of the {len(names)} common operators "
            f"({100 * met / all_:.1f} %), "
            f"{len(self.met)} pairs in all, {len(self.used)} operators"
        )

    def save(self, file: Path):
        found = sorted(self.met.items(), key=lambda item: (-item[1], item[0]))
        rows = [{"from": a, "to": b, "count": n} for (a, b), n in found]
        file.write_text(json.dumps({"summary": str(self), "pairs": rows}, indent=0) + "\n")
