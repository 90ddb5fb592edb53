"""Measures what an installed Lazuli costs a process: as torch is imported, and at its first use.

Each process is a new one, and the arms take turns. `with` has the device, and does not use it;
`first use` makes a tensor on it; `without` is torch alone. Torch's own import, and what comes at
its end with the device, are timed one after the other in each process. Times are lower quartiles,
in milliseconds; memory is the most that a process held. A second table compares a script that the
launcher runs with one that names the device (launcher.py).
"""

import json
import sys

from benchmarks import harness
from benchmarks.start import launcher
from benchmarks.start.process import (
    IMPORT_TORCH_ALONE,
    by_arm,
    bytecode,
    lower_quartile,
    output_of,
)

MEASURE = f"""
import json, os, resource, sys, time
arm = sys.argv[1]
begin = time.perf_counter()
{IMPORT_TORCH_ALONE}
imported = time.perf_counter()
if arm != "without":
    torch._import_device_backends()
ready = time.perf_counter()
if arm == "first use":
    torch.ones(1, device="lazuli")
used = time.perf_counter()
print(json.dumps({{
    "import": imported - begin,
    "more": ready - imported,
    "use": used - ready,
    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}}))
"""
ARMS = ("without", "with", "first use")


def process(arm: str, environment: dict[str, str]) -> dict[str, float]:
    """Seconds and MiB of a new process."""
    return json.loads(output_of([sys.executable, "-c", MEASURE, arm], environment))


def measure(rounds: int, environment: dict[str, str]) -> list[dict]:
    """A row for each arm."""
    found = by_arm(ARMS, rounds, lambda arm: process(arm, environment))

    def quartile(arm: str, what: str) -> float:
        return lower_quartile([one[what] for one in found[arm]])

    return [
        {
            "process": arm,
            "import torch ms": quartile(arm, "import") * 1e3,
            "more ms": quartile(arm, "more") * 1e3,
            "first use ms": quartile(arm, "use") * 1e3,
            "peak MiB": max(one["memory"] for one in found[arm]),
        }
        for arm in ARMS
    ]


def main() -> None:
    parser = harness.argument_parser("start", __doc__)
    parser.set_defaults(rounds=20)
    arguments = parser.parse_args()
    harness.start(arguments)
    with bytecode() as environment:
        rows = measure(arguments.rounds, environment)
        harness.print_table(rows)
        launched = launcher.measure(arguments.rounds, environment)
    harness.print_table(launched)
    harness.save(arguments.json, rows + launched)


if __name__ == "__main__":
    main()
