"""Measures whole models, training (AdamW) and inferring: eager, torch.compile and lazuli.

The arms take turns in one process, and the table has the medians of their turns. All follow one
protocol: a turn takes some steps, keeps what each gives, and ends when all of that was read on the
host. Inference gives the scores of the classes, or the probability of each token of a text;
training gives the loss. No arm is told where a step ends, and none waits before the turn's end, so
each may run ahead as far as it does for a user who reads results later. None can leave a step out,
for each one's result is read within the time that counts. The results of the last turn's inference
are compared with the first arm's, and so are the first losses of training that drops nothing.

Dropout is as each model's configuration has it, and the table has its rates; --without-dropout
leaves it out of all arms.

The arms openvino and onnxruntime infer on a CPU, in float32. Each has a process of its own, which
follows the same protocol when it is its turn. Their first step comes after a conversion, whose
time is given beside it. They are measured only where --arms names them.

On a GPU the models run under bfloat16 autocast unless --float32. First step and peak memory are
those of a new process with empty caches; memory is counted from when the model was made. The second
process's first step finds what the first one left in its caches. An arm that fails is listed with
its error.
"""

import json
import statistics
import tempfile

from benchmarks import harness
from benchmarks.models import first_steps, steady, steps, zoo

NAMING = {"model", "mode"}


def compare(name: str, mode: str, arguments) -> dict[str, object]:
    """One row of the table."""
    row: dict[str, object] = {"model": name, "mode": mode}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        cold: dict[str, object] = {}
        if not arguments.no_cold:
            cold = first_steps.compare(name, mode, arguments, folder, failed)
            # What torch.compile has compiled there need not be compiled once more.
            first_steps.share_caches(folder, arguments.arms)
        if not arguments.cold_only:
            row |= steady.compare(name, mode, arguments, failed)
    return row | cold | {"failed": failed}


def mean_gains(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """By mode, the geometric means of lazuli's gains over the other arms, where neither failed."""
    means = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        mean: dict[str, object] = {"geometric mean": mode}
        for name in (name for name in rows[0] if name.endswith("/lazuli")):
            gains = [row[name] for row in rows if row["mode"] == mode and row[name]]
            mean[name] = statistics.geometric_mean(gains) if gains else None
        means.append(mean)
    return means


def print_results(rows: list[dict[str, object]]) -> None:
    """Tables of what every step and what the first one costs, of means, and why arms failed."""
    about_first = {name for name in rows[0] if name.endswith((" MB", " s"))}
    for names in (rows[0].keys() - about_first - NAMING, about_first):
        if names - {"failed"}:
            print()
            harness.print_table([{n: row[n] for n in row if n in NAMING | names} for row in rows])
    if any(name.endswith("/lazuli") for name in rows[0]):
        print()
        harness.print_table(mean_gains(rows))
    for row in rows:
        for arm, error in row["failed"].items():
            print(f"{arm} failed at {row['model']} {row['mode']}: {error}")


def main() -> None:
    parser = harness.argument_parser("models", __doc__, harness.RIVALS)
    modes = list(steps.MODES)
    groups = sorted({group for groups in zoo.GROUPS.values() for group in groups})
    parser.add_argument("--models", nargs="+", choices=list(zoo.MODELS), help="which, by name")
    parser.add_argument("--group", choices=groups, help="which: those of a size")
    parser.add_argument("--modes", nargs="+", choices=modes, default=modes, help="which")
    parser.add_argument(
        "--steps", type=int, help="steps in each turn (default: 3 on a CPU, 20 on a GPU)"
    )
    steps.Conditions.add_options(parser)
    parser.add_argument("--no-cold", action="store_true", help="no first steps and peak memory")
    parser.add_argument("--cold-only", action="store_true", help="nothing else")
    parser.add_argument("--cold-rounds", type=int, default=1, help="how often (default: 1)")
    parser.add_argument(
        "--cold", nargs=3, metavar=("MODEL", "MODE", "ARM"), help="measure only this, print JSON"
    )
    parser.set_defaults(arms=None)
    arguments = parser.parse_args()
    arguments.arms = arguments.arms or harness.arms_on(arguments.device)
    if arguments.device == "cuda" and {*arguments.arms} & {*harness.RIVALS}:
        parser.error(f"{' and '.join(harness.RIVALS)} are measured on a CPU")
    arguments.models = zoo.chosen(arguments.device, arguments.group, arguments.models)
    arguments.steps = arguments.steps or (20 if arguments.device == "cuda" else 3)
    if arguments.cold:
        arguments.arms = [arguments.cold[2]]
    harness.start(arguments)
    if arguments.cold:
        conditions = steps.Conditions.of(arguments)
        print(json.dumps(first_steps.measure(*arguments.cold, conditions)))
        return

    rows = []
    for name in arguments.models:
        for mode in arguments.modes:
            print(f"[models] {name} {mode} ...", flush=True)
            rows.append(compare(name, mode, arguments))
            harness.save(arguments.json, rows)  # who stops it keeps what there is
    print_results(rows)


if __name__ == "__main__":
    main()
