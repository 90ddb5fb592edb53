"""Which operator should take which operator's result: all pairs of the most used ones, in chains.

A run's seed makes one closed walk over these operators that takes each pair once, and program k of
the run goes for the k-th stretch of it: each operator takes what the one before it has made. So a
program depends on nothing but the two numbers, a statement is in two pairs, and a long run goes for
each pair as often as for any other. A pair of all common operators comes on top. `Coverage` counts
what pairs programs really had. `python -m fuzz.steering FILE...` adds up what runs have saved and
prints the pairs that were met too seldom; with such a list's file in LAZULI_FUZZ_AIMS, programs go
for those alone.
"""

import functools
import itertools
import json
import os
import random
import sys
from pathlib import Path

from fuzz import common_ops

LINKS = 14  # pairs of the most used operators that a program goes for
OFTEN = 20  # in how many programs such a pair should be

Pair = tuple[str, str]  # an operator, and the one that takes its result


@functools.cache
def walk(seed: int, names: tuple[str, ...]) -> list[Pair]:
    """Each pair once, and each begins where the one before it ends: an Eulerian circuit."""
    rng = random.Random(seed)
    left = {name: rng.sample(names, len(names)) for name in names}
    path, circuit = [names[0]], []
    while path:
        if onward := left[path[-1]]:
            path.append(onward.pop())
        else:
            circuit.append(path.pop())
    return list(itertools.pairwise(reversed(circuit)))


@functools.cache
def shuffled(seed: int, names: tuple[str, ...]) -> list[Pair]:
    return random.Random(seed).sample(found := list(itertools.product(names, repeat=2)), len(found))


@functools.cache
def asked_for() -> list[Pair]:
    """The pairs in the file that LAZULI_FUZZ_AIMS names, as `missed` writes them."""
    file = os.environ.get("LAZULI_FUZZ_AIMS")
    return chained(json.loads(Path(file).read_text())) if file else []


def chained(missed: list[tuple[str, str, int]]) -> list[Pair]:
    """Each as often as it is short of, and where that can be, each begins where one ends."""
    left = {}
    for a, b, n in missed:
        left.setdefault(a, []).extend([b] * (OFTEN - n))
    rng = random.Random(0)
    for onward in left.values():
        rng.shuffle(onward)
    found, at = [], None
    while left:
        at = at if at in left else rng.choice(list(left))
        found.append((at, onward := left[at].pop()))
        if not left[at]:
            del left[at]
        at = onward
    return found


def stretch(pairs: list[Pair], k: int, count: int) -> list[Pair]:
    return [pairs[(k * count + i) % len(pairs)] for i in range(count)]


def targets(seed: int, k: int) -> list[Pair]:
    if aims := asked_for():
        return stretch(aims, k, LINKS)
    links = stretch(walk(seed, tuple(common_ops.most_used())), k, LINKS)
    return links + stretch(shuffled(seed, tuple(common_ops.common())), k, 1)


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
