"""Which operator should take which operator's result: all pairs of the common ones, in slices.

Program k of a run goes for the k-th few pairs of lists that the run's seed has shuffled, so a
program depends on nothing but the two numbers, and a long run meets each pair once before it meets
one again. `Coverage` counts what pairs programs really had. `python -m fuzz.steering FILE...` adds
up what runs have saved and prints the pairs that were met too seldom; with such a list's file in
LAZULI_FUZZ_AIMS, programs go for those alone.
"""

import functools
import itertools
import json
import os
import random
import sys
from pathlib import Path

from fuzz import common_ops

MOST, ANY = 8, 1  # pairs a program, of the most used operators and of all common ones
OFTEN = 20  # in how many programs a pair of the most used should be


@functools.cache
def pairs(seed: int, names: tuple[str, ...]) -> list[tuple[str, str]]:
    found = list(itertools.product(names, repeat=2))
    random.Random(seed).shuffle(found)
    return found


@functools.cache
def asked_for() -> list[tuple[str, str]]:
    """The pairs in the file that LAZULI_FUZZ_AIMS names, as `missed` writes them."""
    file = os.environ.get("LAZULI_FUZZ_AIMS")
    return [(a, b) for a, b, _ in json.loads(Path(file).read_text())] if file else []


def targets(seed: int, k: int) -> list[tuple[str, str]]:
    if aims := asked_for():
        return [aims[(k * MOST + i) % len(aims)] for i in range(MOST)]
    found = []
    for few, names in (MOST, common_ops.most_used()), (ANY, common_ops.common()):
        order = pairs(seed, tuple(names))
        found += [order[(k * few + i) % len(order)] for i in range(few)]
    return found


class Coverage:
    def __init__(self):
        self.met: dict[tuple[str, str], int] = {}
        self.used: dict[str, int] = {}

    def add(self, found, programs: int = 1):
        for pair in map(tuple, found):
            self.met[pair] = self.met.get(pair, 0) + programs
            self.used[pair[1]] = self.used.get(pair[1], 0) + programs

    def of(self, names: list[str], least: int = 1) -> str:
        """How many pairs of these operators are in at least so many programs."""
        met = sum(self.met.get(pair, 0) >= least for pair in itertools.product(names, repeat=2))
        return f"{met} of {len(names) ** 2} ({100 * met / len(names) ** 2:.1f} %)"

    def __str__(self):
        common, most = common_ops.common(), common_ops.most_used()
        return (
            f"of the {len(common)} common operators {self.of(common)}; of the {len(most)} most "
            f"used {self.of(most)}, in {OFTEN} programs {self.of(most, OFTEN)}; "
            f"{len(self.met)} in all, {len(self.used)} operators"
        )

    def save(self, file: Path):
        found = sorted(self.met.items(), key=lambda item: (-item[1], item[0]))
        rows = [{"from": a, "to": b, "count": n} for (a, b), n in found]
        file.write_text(json.dumps({"summary": str(self), "pairs": rows}, indent=0) + "\n")

    def load(self, file: Path):
        for row in json.loads(file.read_text())["pairs"]:
            self.add([(row["from"], row["to"])], row["count"])

    def missed(self, least: int = OFTEN) -> list[tuple[str, str, int]]:
        """Pairs of the most used operators that are in fewer programs."""
        every = itertools.product(common_ops.most_used(), repeat=2)
        return [(*pair, n) for pair in every if (n := self.met.get(pair, 0)) < least]


if __name__ == "__main__":
    whole = Coverage()
    for name in sys.argv[1:]:
        whole.load(Path(name))
    print(whole, file=sys.stderr)
    print(json.dumps(whole.missed(), indent=0))
