"""Measures short programs as somebody runs them who has just installed Lazuli: from the beginning
to the end, each in a process of its own, with no kernels on disk, and a second time with those that
the first process left there.

Eager runs beside each of them. The time begins when torch and the program's other libraries are
imported, and the device's library is loaded (which `tools/bench start` measures). A program takes
150 steps or fewer, and reads a loss in each. The first 20 steps are timed apart. What counts is
eager's time divided by lazuli's: `cold` and `second`, of the whole program and of its first steps.
Times and gains are medians over rounds. `distance` says how far the losses of the first steps are
from eager's, as a share of the largest of them. It is left out where the device draws random
numbers.
"""

import statistics
import tempfile

from benchmarks import harness
from benchmarks.programs.process import (
    DRAWN_THERE,
    FIRST,
    PROGRAMS,
    Ran,
    run_elsewhere,
)

GAINS = ("cold", "second", "cold first", "second first")


def distance(eager: Ran, lazuli: Ran) -> float:
    """How far losses are from eager's, in the first steps, as a share of the largest of these."""
    pairs = list(zip(eager.losses[:FIRST], lazuli.losses[:FIRST], strict=True))
    return max(abs(a - b) for a, b in pairs) / max(abs(a) for a, _ in pairs)


def take_round(name: str, threads: int, lazuli_first: bool) -> dict[str, Ran]:
    """Both arms in new processes, with an empty cache and once more, in turn."""
    ran: dict[str, Ran] = {}
    with tempfile.TemporaryDirectory() as caches:
        for which in ("cold", "second"):
            for arm in ("lazuli", "eager") if lazuli_first else ("eager", "lazuli"):
                ran[f"{arm} {which}"] = run_elsewhere(name, arm, threads, caches)
    return ran


def compare(name: str, rounds: int, threads: int) -> dict[str, object]:
    """One row of the table."""
    found = [take_round(name, threads, i % 2 == 1) for i in range(rounds)]

    def median(arm: str, part: str) -> float:
        return statistics.median(getattr(ran[arm], part) for ran in found)

    def gain(which: str, part: str) -> float:
        pairs = ((ran[f"eager {which}"], ran[f"lazuli {which}"]) for ran in found)
        return statistics.median(getattr(e, part) / getattr(ours, part) for e, ours in pairs)

    row: dict[str, object] = {
        "program": name,
        "eager ms": 1e3 * median("eager cold", "whole"),
        "cold ms": 1e3 * median("lazuli cold", "whole"),
        "second ms": 1e3 * median("lazuli second", "whole"),
    }
    for which in ("cold", "second"):
        row[which] = gain(which, "whole")
        row[f"{which} first"] = gain(which, "first")
    distances = [distance(ran["eager cold"], ran["lazuli cold"]) for ran in found]
    return row | {"distance": None if name in DRAWN_THERE else max(distances)}


def geometric_means(rows: list[dict[str, object]]) -> dict[str, object]:
    """The row that closes the table."""
    closing: dict[str, object] = dict.fromkeys(rows[0]) | {"program": "geometric mean"}
    return closing | {gain: statistics.geometric_mean(row[gain] for row in rows) for gain in GAINS}


def main() -> None:
    parser = harness.argument_parser("programs", __doc__)
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.set_defaults(rounds=3, arms=["eager", "lazuli"])
    arguments = parser.parse_args()
    if arguments.device != "cpu" or {*arguments.arms} != {"eager", "lazuli"}:
        parser.error("it compares eager with lazuli, on a CPU")
    arms, arguments.arms = arguments.arms, []  # only new processes use the device
    harness.start(arguments)
    arguments.arms = arms
    rows = []
    for name in arguments.programs:
        print(f"[programs] {name} ...", flush=True)
        rows.append(compare(name, arguments.rounds, arguments.threads))
        harness.save(arguments.json, rows)
    print()
    harness.print_table([*rows, geometric_means(rows)])


if __name__ == "__main__":
    main()
