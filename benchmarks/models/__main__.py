"""Measures whole models, training (AdamW) and inferring: eager, torch.compile and lazuli.

Steady steps are medians over interleaved rounds in one process. On a CPU every step's loss is read;
on a GPU a turn of steps is waited for at its end, and runs under bfloat16 autocast unless
--float32. First step and peak memory are those of a new process with empty caches; memory is
counted from when the model was made.
"""

import json
import os
import tempfile
from pathlib import Path

import torch

from benchmarks import harness
from benchmarks.models import steps, zoo

WARM_UP = 5


def compare(name: str, mode: str, arguments) -> dict[str, object]:
    """One row of the table."""
    cold = {}
    with tempfile.TemporaryDirectory() as folder:
        if not arguments.no_cold:
            for arm in arguments.arms:
                caches = Path(folder, arm)
                caches.mkdir()
                cold[arm] = steps.measure_cold_elsewhere(name, mode, arm, arguments, str(caches))
            # What torch.compile has compiled there need not be compiled once more.
            os.environ[steps.INDUCTOR_CACHE] = str(Path(folder, "compile"))
        row = {"model": name, "mode": mode} | compare_steady(name, mode, arguments)
    row |= {f"{arm} first s": facts["first_step_s"] for arm, facts in cold.items()}
    row |= {f"{arm} MB": facts["peak_memory_mb"] for arm, facts in cold.items()}
    return row


def compare_steady(name: str, mode: str, arguments) -> dict[str, object]:
    """Medians of the steps that follow some to warm up, and how much the arms' losses differ."""
    torch._dynamo.reset()
    runs = {arm: steps.make_step(name, mode, arm, arguments.float32) for arm in arguments.arms}
    losses = {arm: [run().item() for _ in range(WARM_UP)] for arm, run in runs.items()}
    if harness.on_gpu():
        seconds = harness.time_asynchronous(runs, arguments.rounds, arguments.steps)
    else:
        read = {arm: (lambda run=run: run().item()) for arm, run in runs.items()}
        seconds = harness.time_interleaved(read, arguments.rounds, arguments.steps)
    median = harness.medians(seconds)

    row: dict[str, object] = {f"{arm} ms": value * 1e3 for arm, value in median.items()}
    others = [arm for arm in arguments.arms if arm != "lazuli"]
    if "lazuli" in median:
        row |= {f"{arm}/lazuli": median[arm] / median["lazuli"] for arm in others}
    row["difference"] = largest_difference(losses)
    return row


def largest_difference(losses: dict[str, list[float]]) -> float:
    """The largest relative difference of a loss from the first arm's, over the warm-up steps."""
    expected, *others = losses.values()
    return max((harness.relative_distance(run, expected) for run in others), default=0.0)


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
