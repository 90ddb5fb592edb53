"""Measures steps whose shape or structure was never there before: ordinary programs, none of which
runs twice the same.

The batches of `slices` have one shape, and each is another part of one tensor.

torch.compile (with dynamic=True, where the program is a model that it can take) and lazuli have
their kernels by then: the first steps, of other shapes, are counted apart. The same shapes come
once more afterwards, so that what is new costs shows. Medians over the shapes, and the arms take
turns at each. What it costs lazuli to make new parts of a step ready to run, beyond recording,
stands apart, in microseconds an op: parts that run without a plan, and parts whose plan was made
for other sizes. With --load other processes keep the cores busy meanwhile. Then a step waits for a
core for milliseconds or not at all, and the numbers are means: what all steps took.
"""

import contextlib
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks import harness
from benchmarks.shapes import generation, structures, training
from benchmarks.shapes.training import Step

FIRST = 12  # steps, of as many shapes
RUN_BY_COMPILE = {*training.MODELS, "decode-gpt2", "decode-llama"} - {"experts", "slices"}


@dataclass
class Workload:
    """A program that takes steps: `make(arm)` gives a function of a number, which says how large or
    of what structure the step is."""

    make: Callable[[str], Step]
    ordered: bool = False  # whether step n continues step n - 1


WORKLOADS = {
    "decode-gpt2": Workload(
        partial(generation.make_decoding_step, build=generation.gpt2, batch=1), ordered=True
    ),
    "decode-llama": Workload(
        partial(generation.make_decoding_step, build=generation.llama, batch=4), ordered=True
    ),
    **{name: Workload(partial(training.make_step, name)) for name in training.MODELS},
    "detector": Workload(training.make_detector_step),
    "packed": Workload(structures.make_packed_step),
    "episodes": Workload(structures.make_episodes_step),
    "trees": Workload(structures.make_trees_step),
}


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keeps so many cores busy in the block."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def timed(step: Step, shapes: range | list[int]) -> float:
    begin = time.perf_counter()
    for n in shapes:
        step(n)
    return time.perf_counter() - begin


def host_costs() -> dict[str, float]:
    """Microseconds an op since the metrics were reset."""
    counted = torch.lazuli.metrics()

    def per_op(us: str, ops: str) -> float:
        return counted[us] / counted[ops] if counted[ops] else math.nan

    cut = per_op("cut_us", "ops_cut")
    return {
        "unplanned us/op": cut + per_op("unplanned_us", "ops_unplanned"),
        "resized us/op": cut + per_op("resize_us", "ops_resized"),
    }


def compare(name: str, arms: list[str], rounds: int, load: int) -> dict[str, object]:
    """One row of the table."""
    torch._dynamo.reset()
    workload = WORKLOADS[name]
    captured = (*harness.COMPILE_MODES, *harness.OWN_COMPILE)
    run = [arm for arm in arms if arm not in captured or name in RUN_BY_COMPILE]
    steps = {arm: workload.make(arm) for arm in run}
    if "lazuli" in run:
        torch.lazuli.reset_metrics()
    first = {arm: timed(step, range(FIRST)) for arm, step in steps.items()}
    shapes = list(range(FIRST, FIRST + rounds))  # each once
    if not workload.ordered:
        random.Random(0).shuffle(shapes)
    row: dict[str, object] = {"workload": name}
    costs: dict[str, float] = {}
    with busy_processes(load):
        for what in ("new", "seen"):
            if workload.ordered:
                for step in steps.values():
                    step(FIRST - 1)
            seconds: dict[str, list[float]] = {arm: [] for arm in run}
            for i, n in enumerate(shapes):
                for arm in run if i % 2 == 0 else list(reversed(run)):
                    seconds[arm].append(timed(steps[arm], [n]))
            typical = statistics.fmean if load else statistics.median
            row |= {
                f"{arm} {what} ms": 1e3 * typical(seconds[arm]) if arm in run else None
                for arm in arms
            }
            if {"eager", "lazuli"} <= {*arms}:
                row[f"{what} ratio"] = ratio(seconds["eager"], seconds["lazuli"], load > 0)
            if what == "new" and "lazuli" in run:
                costs = host_costs()
    return row | {f"{arm} first {FIRST} s": first.get(arm) for arm in arms} | costs


def ratio(eager: list[float], ours: list[float], of_all: bool) -> float:
    """Eager's time by ours: of all steps together, or the median of that of single steps."""
    if of_all:
        return sum(eager) / sum(ours)
    return statistics.median(theirs / own for theirs, own in zip(eager, ours, strict=True))


def geometric_means(rows: list[dict[str, object]]) -> dict[str, object]:
    """The row that closes the table."""
    closing: dict[str, object] = dict.fromkeys(rows[0]) | {"workload": "geometric mean"}
    for what in ("new ratio", "seen ratio"):
        if what in closing:
            closing[what] = math.exp(statistics.fmean(math.log(row[what]) for row in rows))
    return closing


def main() -> None:
    parser = harness.argument_parser("shapes", __doc__)
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--load", type=int, default=0, help="busy processes beside the steps")
    parser.set_defaults(rounds=41)
    arguments = parser.parse_args()
    harness.start(arguments)
    rows = []
    for name in arguments.workloads:
        print(f"[shapes] {name} ...", flush=True)
        rows.append(compare(name, arguments.arms, arguments.rounds, arguments.load))
        harness.save(arguments.json, rows)
    print()
    harness.print_table([*rows, geometric_means(rows)])


if __name__ == "__main__":
    main()
