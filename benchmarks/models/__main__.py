"""Measures whole models, training (AdamW) and inferring: eager, torch.compile and lazuli.

The arms take turns in one process, and the table has the medians of their turns. All follow one
protocol: a turn takes some steps, keeps what each gives, and ends when all of that was read on the
host. Inference gives the scores of the classes, or the probability of each token of a text;
training gives the loss. No arm is told where a step ends, and none waits before the turn's end, so
each may run ahead as far as it does for a user who reads results later. None can leave a step out,
for each one's result is read within the time that counts. The results of the last turn's inference
are compared with the first arm's.

On a GPU the models run under bfloat16 autocast unless --float32. First step and peak memory are
those of a new process with empty caches; memory is counted from when the model was made. The second
process's first step finds what the first one left in its caches.
"""

import json
import os
import shutil
import statistics
import tempfile
from pathlib import Path

import torch

from benchmarks import harness, turns
from benchmarks.models import steps, zoo

WARM_UP = 5


def compare(name: str, mode: str, arguments) -> dict[str, object]:
    """One row of the table."""
    row: dict[str, object] = {"model": name, "mode": mode}
    with tempfile.TemporaryDirectory() as folder:
        cold = {} if arguments.no_cold else measure_first_steps(name, mode, arguments, folder)
        if not arguments.cold_only:
            # What torch.compile has compiled there need not be compiled once more.
            if cold:
                os.environ[steps.INDUCTOR_CACHE] = str(Path(folder, "compile"))
            row |= compare_steady(name, mode, arguments)
    return row | cold


def measure_first_steps(name: str, mode: str, arguments, folder: str) -> dict[str, float]:
    """Each arm's first step in a process with empty caches and in the next, and its memory.

    Medians, where they are measured several times. The last caches are left in `folder`.
    """
    facts: dict[str, list[float]] = {}
    for _ in range(arguments.cold_rounds):
        for arm in arguments.arms:
            caches = Path(folder, arm)
            shutil.rmtree(caches, ignore_errors=True)
            caches.mkdir()
            for process in ("first", "second"):
                seen = steps.measure_cold_elsewhere(name, mode, arm, arguments, str(caches))
                facts.setdefault(f"{arm} {process} s", []).append(seen["first_step_s"])
                if process == "first":
                    facts.setdefault(f"{arm} MB", []).append(seen["peak_memory_mb"])
    return {key: statistics.median(values) for key, values in facts.items()}


def compare_steady(name: str, mode: str, arguments) -> dict[str, object]:
    """Medians of the turns that follow some steps to warm up, and how the arms' results differ."""
    torch._dynamo.reset()
    runs = {arm: steps.make_step(name, mode, arm, arguments.float32) for arm in arguments.arms}
    losses = {
        arm: [turns.read(arm, [run()])[0] for _ in range(WARM_UP)] for arm, run in runs.items()
    }
    taken = turns.take_turns(runs, arguments.rounds, arguments.steps)
    median = taken.medians()

    row: dict[str, object] = {f"{arm} ms": value * 1e3 for arm, value in median.items()}
    others = [arm for arm in arguments.arms if arm != "lazuli"]
    if "lazuli" in median:
        row |= {f"{arm}/lazuli": median[arm] / median["lazuli"] for arm in others}
    row["difference"] = largest_difference(taken.results if mode == "infer" else losses)
    return row


def largest_difference(results: dict[str, list[torch.Tensor]]) -> float:
    """How far the arms' results are from the first one's, in units of its largest number."""
    expected, *others = results.values()
    return max(
        (
            ((got - want).abs().max() / want.abs().max()).item()
            for result in others
            for got, want in zip(result, expected, strict=True)
        ),
        default=0.0,
    )


def main() -> None:
    parser = harness.argument_parser("models", __doc__)
    modes = list(steps.MODES)
    models = [name for names in zoo.DEFAULT.values() for name in names]
    parser.add_argument(
        "--models", nargs="+", choices=models, help="which; the device's own by default"
    )
    parser.add_argument("--modes", nargs="+", choices=modes, default=modes, help="which")
    parser.add_argument(
        "--steps", type=int, help="steps in each turn (default: 3 on a CPU, 20 on a GPU)"
    )
    parser.add_argument("--float32", action="store_true", help="no autocast on a GPU")
    parser.add_argument("--no-cold", action="store_true", help="no first steps and peak memory")
    parser.add_argument("--cold-only", action="store_true", help="nothing else")
    parser.add_argument("--cold-rounds", type=int, default=1, help="how often (default: 1)")
    parser.add_argument(
        "--cold", nargs=3, metavar=("MODEL", "MODE", "ARM"), help="measure only this, print JSON"
    )
    arguments = parser.parse_args()
    arguments.models = arguments.models or zoo.DEFAULT[arguments.device]
    arguments.steps = arguments.steps or (20 if arguments.device == "cuda" else 3)
    if arguments.cold:
        arguments.arms = [arguments.cold[2]]
    harness.start(arguments)
    if arguments.cold:
        print(json.dumps(steps.measure_cold(*arguments.cold, arguments.float32)))
        return

    rows = []
    for name in arguments.models:
        for mode in arguments.modes:
            print(f"[models] {name} {mode} ...", flush=True)
            rows.append(compare(name, mode, arguments))
            harness.save(arguments.json, rows)  # who stops it keeps what there is
    print()
    harness.print_table(rows)


if __name__ == "__main__":
    main()
