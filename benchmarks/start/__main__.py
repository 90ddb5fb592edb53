"""Measures what an installed Lazuli costs a process: as torch is imported, and at its first use.

Each process is a new one, and the arms take turns. `without` is torch alone
(TORCH_DEVICE_BACKEND_AUTOLOAD=0), `with` has the device, and does not use it; `first use` makes a
tensor on it. Times are medians, in milliseconds; memory is the most that a process held. A second
table compares a script that the launcher runs with one that names the device (launcher.py).
"""

import json
import os
import statistics
import subprocess
import sys

from benchmarks import harness
from benchmarks.start import launcher

MEASURE = """
import json, resource, time
begin = time.perf_counter()
import torch
imported = time.perf_counter()
if {uses}:
    torch.ones(1, device="lazuli")
used = time.perf_counter()
print(json.dumps({{
    "import": imported - begin,
    "use": used - imported,
    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}}))
"""
ARMS = {"without": ("0", False), "with": ("1", False), "first use": ("1", True)}


def process(arm: str) -> dict[str, float]:
    """Seconds and MiB of a new process."""
    autoload, uses = ARMS[arm]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.format(uses=uses)],
        env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = harness.argument_parser("start", __doc__)
    parser.set_defaults(rounds=20)
    arguments = parser.parse_args()
    harness.start(arguments)
    for arm in ARMS:
        process(arm)  # from here on the files are in memory
    found = {arm: [] for arm in ARMS}
    for number in range(arguments.rounds):
        for arm in list(ARMS) if number % 2 == 0 else reversed(list(ARMS)):
            found[arm].append(process(arm))

    def median(arm: str, what: str) -> float:
        return statistics.median(one[what] for one in found[arm])

    base = median("without", "import")
    rows = [
        {
            "process": arm,
            "import ms": median(arm, "import") * 1e3,
            "more than without": (median(arm, "import") - base) * 1e3,
            "first use ms": median(arm, "use") * 1e3,
            "peak MiB": median(arm, "memory"),
        }
        for arm in ARMS
    ]
    harness.print_table(rows)
    launched = launcher.measure(arguments.rounds)
    harness.print_table(launched)
    harness.save(arguments.json, rows + launched)


if __name__ == "__main__":
    main()
