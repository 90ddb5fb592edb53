"""Measures library calls on a CPU, and all that could compute them: what matmul.cpp and
convolution.cpp choose, beside oneDNN on several layouts and our own code.

`chosen` is taken where a call may cost much to make, `quick` where it must cost little; of linear
layers it has packed weights. `behind` is the time of `chosen` divided by the fastest's: 1 is the
best choice. `of peak` is the share of what the processor does at best in float32 (multiply-adds in
registers, measured just before). The thresholds in these
files rest on such tables of machines with and without AVX-512. The program is
benchmarks/kernels/libraries_core.cpp; its passes are repeated, and the table has the medians.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks import harness

PROGRAM = "libraries_core"
VARIANTS = (
    "chosen",
    "as given",
    "quick",
    "own",
    "oneDNN as given",
    "oneDNN channels-last",
    "oneDNN reordered",
)


def measure(path: Path, part: str, threads: int) -> list[dict[str, object]]:
    """What the program prints of the calls whose name has `part`: a line for each variant."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([path, part], env=environment, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of(lines: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """A row for each call, of the medians of its variants."""
    seen: dict[str, dict[str, list[dict]]] = {}
    for line in lines:
        seen.setdefault(line["call"], {}).setdefault(line["variant"], []).append(line)
    return [row_of(call, variants) for call, variants in seen.items()]


def row_of(call: str, variants: dict[str, list[dict]]) -> dict[str, object]:
    us = {name: statistics.median(line["us"] for line in runs) for name, runs in variants.items()}
    fastest = min(us, key=us.get)
    # A choice is among the others, too: no worse than what computes the same.
    same = variants["chosen"][0]["by"] == variants[fastest][0]["by"]
    row: dict[str, object] = {"call": call}
    row |= {f"{name} us": us.get(name) for name in VARIANTS}
    share = statistics.median(line["GF/s"] / line["peak GF/s"] for line in variants["chosen"])
    return row | {
        "of peak": share,
        "fastest": "chosen" if same else fastest,
        "behind": 1.0 if same else us["chosen"] / us[fastest],
        "made us": {name: runs[0]["made us"] for name, runs in variants.items()},
        "by": {name: runs[0]["by"] for name, runs in variants.items()},
    }


def main() -> None:
    parser = harness.argument_parser("libraries", __doc__)
    parser.add_argument("--calls", default="", metavar="PART", help="those whose names have it")
    parser.set_defaults(arms=[], rounds=3)
    arguments = parser.parse_args()
    harness.start(arguments)
    path = harness.core_program(PROGRAM)
    if not path.exists():
        sys.exit(f"{path} is not there: unset LAZULI_LIBRARY to have it built")
    lines = []
    for number in range(arguments.rounds):
        print(f"[libraries] pass {number + 1} of {arguments.rounds} ...", flush=True)
        lines += measure(path, arguments.calls, arguments.threads)
    rows = rows_of(lines)
    print()
    harness.print_table(rows)
    harness.save(arguments.json, rows)


if __name__ == "__main__":
    main()
