"""Measures the most memory that models and attention need, eager beside lazuli, in new processes.

Each number is resident memory beyond what the process held before its first step, with the model
and a batch in it, so that the code of libraries does not count. `first` is the first step's peak,
`most` that of all ten steps, `steady` that of the last three, and `held` what is left after them.
Lazuli runs with empty caches, so what its compiler takes is in `most`. With --attention, one layer
of each form is measured with several lengths.
"""

import json
import os
import subprocess
import sys
import tempfile

from benchmarks import harness
from benchmarks.memory import forms, process
from benchmarks.models import steps, zoo

SHOWN = ("first", "most", "steady", "held")


def measure_elsewhere(name: str, mode: str, arm: str, threads: int) -> dict[str, float] | None:
    """`process.measure` in a new process with empty caches; None where that fails."""
    with tempfile.TemporaryDirectory() as caches:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", "--one", name, mode, arm]
            + ["--threads", str(threads)],
            cwd=harness.ROOT,
            env=os.environ | {"LAZULI_CACHE_DIR": caches},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        print(harness.what_failed(done.stderr or done.stdout, done.returncode))
        return None
    return json.loads(done.stdout.splitlines()[-1])


def compare(name: str, mode: str, arms: list[str], threads: int) -> dict[str, object]:
    """One row of the table, in MiB."""
    row: dict[str, object] = {"name": name, "mode": mode}
    whole = {}
    for arm in arms:
        found = measure_elsewhere(name, mode, arm, threads)
        for what in SHOWN:
            row[f"{arm} {what}"] = found and found[what]
        whole[arm] = found
    return row | {"measured": whole}


def names(arguments) -> list[str]:
    if not arguments.attention:
        return zoo.chosen("cpu", arguments.group, arguments.models)
    chosen = arguments.forms or list(forms.FORMS)
    return [f"{form} {length}" for form in chosen for length in arguments.lengths]


def main() -> None:
    parser = harness.argument_parser("memory", __doc__)
    groups = sorted(zoo.GROUPS["cpu"])
    modes = list(steps.MODES)
    parser.add_argument("--models", nargs="+", choices=list(zoo.MODELS), help="which, by name")
    parser.add_argument("--group", choices=groups, default="usual", help="which: those of a size")
    parser.add_argument("--modes", nargs="+", choices=modes, default=modes, help="which")
    parser.add_argument("--attention", action="store_true", help="attention, no models")
    parser.add_argument("--forms", nargs="+", choices=list(forms.FORMS), help="of attention")
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 1024, 2048, 4096])
    parser.add_argument(
        "--one", nargs=3, metavar=("NAME", "MODE", "ARM"), help="measure only this, print JSON"
    )
    parser.set_defaults(arms=["eager", "lazuli"])
    arguments = parser.parse_args()
    if arguments.device != "cpu":
        parser.error("resident memory is measured on a CPU")
    if arguments.one:
        arguments.arms = [arguments.one[2]]
    harness.start(arguments)
    if arguments.one:
        print(json.dumps(process.measure(*arguments.one)))
        return
    rows = []
    for name in names(arguments):
        for mode in arguments.modes:
            print(f"[memory] {name} {mode} ...", flush=True)
            rows.append(compare(name, mode, arguments.arms, arguments.threads))
            harness.save(arguments.json, rows)
    harness.print_table(rows)


if __name__ == "__main__":
    main()
