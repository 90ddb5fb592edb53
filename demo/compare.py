"""Runs the demo's two jobs on two devices and prints what came out, side by side.

python demo/compare.py [--json FILE]

Each job is a script of its own (embed.py, digits.py) that runs unchanged on either device, in a
process of its own. The job is run once more for a few steps to leave a dump of its traces.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
JOBS = {
    "embed": "MiniLM sentence encoder (inference)",
    "digits": "residual CNN on digits (AdamW)",
}


def run_script(job: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Runs one job in a process of its own; its output is shown only if it fails."""
    command = [sys.executable, str(HERE / f"{job}.py"), *arguments]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise SystemExit(f"[demo] {' '.join(command)} failed with {done.returncode}")


def run_job(job: str, device: str, folder: Path) -> dict:
    """A job's results on a device, with its tensors and the device's counters."""
    print(f"[demo] {job} on {device} ...", flush=True)
    results, tensors, counters = (folder / f"{job}-{device}.{end}" for end in ("json", "pt", "m"))
    run_script(
        job,
        ["--device", device, "--json", str(results), "--save", str(tensors)],
        {"LAZULI_METRICS": str(counters)},
    )
    run = json.loads(results.read_text())
    run["tensors"] = torch.load(tensors)
    run["metrics"] = {}
    if device == "lazuli" and counters.exists():
        run["metrics"] = json.loads(counters.read_text())
    return run


def largest_difference(a: dict, b: dict) -> float:
    return max((a[name] - b[name]).abs().max().item() for name in a)


def counted(metrics: dict, name: str) -> str:
    """A counter as text; one that counts by op is summed up, and names the most frequent."""
    value = metrics.get(name, "-")
    if not isinstance(value, dict):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if not value:
        return "0"
    most = max(value, key=value.get)
    return f"{sum(value.values()):,} (most: {most})"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def column(cpu: dict, other: dict) -> list[tuple[str, str]]:
    """The table's rows for one job."""
    first, steady = "first_step_s", "steady_step_s"
    metrics = other["metrics"]
    return [
        ("result on cpu", cpu["result"]),
        ("result on lazuli", other["result"]),
        ("largest difference", f"{largest_difference(cpu['tensors'], other['tensors']):.2g}"),
        ("first step, cpu", milliseconds(cpu[first])),
        ("first step, lazuli", milliseconds(other[first])),
        ("steady step, cpu", milliseconds(cpu[steady])),
        ("steady step, lazuli", milliseconds(other[steady])),
        ("times faster than eager", f"{cpu[steady] / other[steady]:.2f}"),
        ("steps", str(other["steps"])),
        ("ops recorded", counted(metrics, "ops_recorded")),
        ("traces compiled", counted(metrics, "traces_compiled")),
        ("traces reused", counted(metrics, "traces_reused")),
        ("kernels compiled", counted(metrics, "kernels_compiled")),
        ("external calls", counted(metrics, "external_calls")),
    ]


def print_table(columns: dict[str, list[tuple[str, str]]]) -> None:
    rows = [["", *(JOBS[job] for job in columns)]]
    for index, (label, _) in enumerate(next(iter(columns.values()))):
        rows.append([label, *(rows_of[index][1] for rows_of in columns.values())])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
        if number == 0:
            print("  ".join("-" * width for width in widths))


def dump_traces(folder: Path) -> None:
    """Runs a few steps of each job again and leaves every stage of their traces in `folder`."""
    print("[demo] a few steps more, to dump their traces ...", flush=True)
    for job in JOBS:
        (folder / job).mkdir(parents=True, exist_ok=True)
        dump = {"LAZULI_DEBUG": f"trace,passes,plan,kernels,graph:{folder / job}"}
        run_script(job, ["--max-steps", "3"], dump)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--device", default="lazuli", help="what to compare with cpu")
    parser.add_argument("--dump", default="lazuli_dump", help="folder for the traces")
    arguments = parser.parse_args()
    columns, runs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for job in JOBS:
            cpu = run_job(job, "cpu", Path(folder))
            other = run_job(job, arguments.device, Path(folder))
            columns[job] = column(cpu, other)
            runs[job] = {"cpu": cpu, arguments.device: other}
    dump = Path(arguments.dump).resolve()
    if arguments.device == "lazuli":
        dump_traces(dump)
    print()
    print_table(columns)
    if arguments.device == "lazuli":
        print(f"\nThe traces, from Python lines to assembly, are in {dump}")
    if arguments.json:
        for pair in runs.values():
            for run in pair.values():
                del run["tensors"]
        Path(arguments.json).write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
