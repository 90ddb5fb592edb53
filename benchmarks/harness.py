"""What the benchmarks share: arms, interleaved timing, facts about the machine, tables, files."""

import argparse
import contextlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from types import NoneType

import torch

from benchmarks import resident, revision

ROOT = revision.ROOT

# An arm is a way to run the same code. All compute on the same machine: eager and torch.compile on
# the device that --device names, lazuli backed by it. torch.compile has an arm for each mode.
COMPILE_MODES = {
    "compile": "default",
    "compile-reduce-overhead": "reduce-overhead",  # CUDA graphs
    "compile-max-autotune": "max-autotune",  # on a GPU with CUDA graphs, too
}
# torch.compile with the backend lazuli: on tensors of the device, and on those of --device.
OWN_COMPILE = ("lazuli+compile", "compile-lazuli")
RIVALS = ("openvino", "onnxruntime")  # for models' inference on a CPU (benchmarks/rivals)
ARMS = ("eager", *COMPILE_MODES, *RIVALS, *OWN_COMPILE, "lazuli")
USUAL_ARMS = ("eager", "compile", "lazuli")
DEVICES = ("cpu", "cuda")
_device = "cpu"
_began: dict[str, object] = {}  # the revision, when measuring began


def on_gpu() -> bool:
    return _device == "cuda"


def core_program(name: str) -> Path:
    """A program of benchmarks/kernels, built; or the one beside the library of LAZULI_LIBRARY."""
    if library := os.environ.get("LAZULI_LIBRARY"):
        return Path(library).with_name(name)
    folder = ROOT / "build" / os.environ.get("LAZULI_PRESET", "release")
    command = ["cmake", "--build", str(folder), "--target", name]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / name


def device_of(arm: str) -> str:
    return "lazuli" if arm in ("lazuli", "lazuli+compile") else _device


def arms_on(device: str) -> list[str]:
    """The arms that differ from each other on the device, but those that have to be named."""
    arms = [arm for arm in ARMS if arm not in (*RIVALS, "compile-lazuli")]
    return [arm for arm in arms if arm != "compile-reduce-overhead" or device == "cuda"]


def compiled(arm: str, function: Callable, **options) -> Callable:
    """The function as the arm runs it; `options` are torch.compile's."""
    if arm in OWN_COMPILE:
        return torch.compile(function, backend="lazuli", **options)
    if arm not in COMPILE_MODES:
        return function
    return torch.compile(function, mode=COMPILE_MODES[arm], **options)


def to_keep(arm: str, result: torch.Tensor) -> torch.Tensor:
    """A result as one keeps it while steps go on: a CUDA graph's next run overwrites its own."""
    graphs = arm in COMPILE_MODES and COMPILE_MODES[arm] != "default" and on_gpu()
    return result.detach().clone() if graphs else result.detach()


def synchronize(arm: str) -> None:
    """Waits until everything that the arm was asked for is computed."""
    if device_of(arm) == "lazuli":
        torch.lazuli.synchronize()
    elif on_gpu():
        torch.cuda.synchronize()


def in_turns(arms: Sequence[str], rounds: int) -> Iterator[str]:
    """The arms, `rounds` times, in an order that is reversed in every second round."""
    for number in range(rounds):
        yield from arms if number % 2 == 0 else reversed(arms)


def time_interleaved(
    steps: dict[str, Callable[[], object]], rounds: int, repeats: int
) -> dict[str, list[float]]:
    """Seconds of single calls, by arm.

    The arms take turns, `repeats` calls each, so that what else the machine does hits all alike.
    """
    seconds: dict[str, list[float]] = {arm: [] for arm in steps}
    for arm in in_turns(list(steps), rounds):
        step = steps[arm]
        for _ in range(repeats):
            begin = time.perf_counter()
            step()
            seconds[arm].append(time.perf_counter() - begin)
    return seconds


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    return {arm: statistics.median(values) for arm, values in seconds.items()}


def relative_distance(losses: Sequence[float], expected: Sequence[float]) -> float:
    """The largest relative difference of two runs' losses."""
    pairs = zip(losses, expected, strict=True)
    return max(abs(got - want) / abs(want) for got, want in pairs)


@contextlib.contextmanager
def peak_memory() -> Iterator[dict[str, int]]:
    """Measures by how many bytes memory grew at its peak in the block.

    On a GPU that is its memory, else the process's resident memory without code of libraries.
    """
    if on_gpu():
        torch.cuda.reset_peak_memory_stats()
        result = {"before": torch.cuda.memory_allocated()}
        yield result
        result["peak"] = torch.cuda.max_memory_allocated() - result["before"]
        return
    with resident.growth() as result:
        yield result


def in_a_line(error: Exception) -> str:
    """An error as a table's cell: its type and the beginning of its text."""
    text = " ".join(str(error).split())
    kind = "" if isinstance(error, RuntimeError) else f"{type(error).__name__}: "
    return f"{kind}{text}"[:300]


def what_failed(output: str, status: int) -> str:
    """Why a process failed: the line of its error, the last that names one, or its status."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    return (errors or lines or [""])[-1] + f" (exit status {status})"


# --- Facts ----------------------------------------------------------------------------------------
def _cpu_facts() -> dict[str, object]:
    facts, flags = {}, set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            facts["cpu"] = value.strip()
        if name.strip() == "flags":
            flags = set(value.split())
    wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    return facts | {"features": [flag for flag in wanted if flag in flags]}


def facts() -> dict[str, object]:
    """The machine and the versions that a result was measured with."""
    gpu = {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda} if on_gpu() else {}
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    versions = {name: metadata.version(name) for name in ("torch", "transformers", "numpy")}
    return {
        "machine": _cpu_facts()
        | gpu
        | {
            "cores": os.cpu_count(),
            "memory_gib": round(memory / 2**30, 1),
            "system": platform.platform(),
        },
        "versions": versions | {"python": platform.python_version()},
        "revision": revision.since(_began),
        "threads": torch.get_num_threads(),
        "date": time.strftime("%Y-%m-%d"),
    }


# --- Command line and output ----------------------------------------------------------------------
def argument_parser(
    name: str, description: str, rivals: tuple[str, ...] = ()
) -> argparse.ArgumentParser:
    """The options that every benchmark has, and the first paragraph of `description`."""
    arms = [arm for arm in ARMS if arm in rivals or arm not in RIVALS]
    parser = argparse.ArgumentParser(
        prog=f"tools/bench {name}",
        description=description.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--json", metavar="FILE", help="write results, machine and revision there")
    parser.add_argument("--threads", type=int, default=2, help="threads for every arm")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each arm")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="what all arms compute on")
    parser.add_argument(
        "--arms", nargs="+", choices=arms, default=list(USUAL_ARMS), help="what to compare"
    )
    return parser


def start(arguments: argparse.Namespace) -> None:
    """Applies the common options.

    Exits with a message if the lazuli device is asked for and not there, or if results are to be
    stored that nobody could repeat.
    """
    global _device, _began
    revision.refuse_unclean(arguments.json)
    _began = revision.facts()
    _device = arguments.device
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    if on_gpu() and not torch.cuda.is_available():
        sys.exit("--device cuda, but torch finds no GPU here")
    if "compile-reduce-overhead" in arguments.arms and not on_gpu():
        sys.exit("compile-reduce-overhead: CUDA graphs, so only with --device cuda")
    if "lazuli" in arguments.arms and not hasattr(torch, "lazuli"):
        sys.exit("device lazuli is not there: run tools/setup, or leave it out with --arms")
    if "lazuli" in arguments.arms:
        from torch_lazuli.operators import ops

        if ops._backing().type != _device:
            sys.exit(
                f"device lazuli is backed by {ops._backing()}, not by {_device}: set LAZULI_BACKING"
            )


def print_table(rows: list[dict[str, object]]) -> None:
    """Prints dicts with the same keys as a table; numbers to the right, and no lists and dicts."""
    if not rows:
        return
    names = [
        name for name in rows[0] if not any(isinstance(row[name], dict | list) for row in rows)
    ]
    cells = [[_text(row[name]) for name in names] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    right = [all(isinstance(row[name], float | int | NoneType) for row in rows) for name in names]

    def line(values: list[str]) -> str:
        justified = (
            value.rjust(width) if to_right else value.ljust(width)
            for value, width, to_right in zip(values, widths, right, strict=True)
        )
        return "  ".join(justified).rstrip()

    print(line(names))
    print("  ".join("-" * width for width in widths))
    for row in cells:
        print(line(row))


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)


def save(file: str | None, rows: list[dict[str, object]]) -> None:
    """Writes results to `file`, if there is one, with the machine, versions and revision."""
    if file:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(json.dumps(facts() | {"results": rows}, indent=1) + "\n")
        print(f"\nwritten to {file}")
