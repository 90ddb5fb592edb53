"""The outcomes that are known: a file of them, and a page that is written from it."""

import json
import platform
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import running
from listing import Program

NAME = "tutorials"
EXPLAINED = {
    running.SAME: "runs, and prints what it prints without the launcher, up to a tolerance (0.01 "
    "unless its line in the list says more)",
    running.ROUNDING: "runs; its numbers differ, but no more than twice as far as eager's own do "
    "if each step changes the parameters in their last digit",
    running.ALIKE: "runs, and prints the same kinds of lines; the list says why no more is asked",
    running.DIFFERS: "runs, and prints something else",
    running.FAILS: "runs without the launcher only",
    running.BROKEN: "fails without the launcher too: does not count",
    running.UNUSED: "runs, but none of its operations ran on the device",
}
_lock = threading.Lock()


def add(folder: Path, found: dict[str, running.Outcome], programs: Sequence[Program]) -> None:
    """Keeps outcomes, and writes the page of all that are known of the listed programs."""
    with _lock:
        file = folder / f"{NAME}.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        known |= {name: _kept(outcome) for name, outcome in found.items()}
        listed = {p.name: known[p.name] for p in programs if p.name in known}
        folder.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(listed, indent=1, sort_keys=True) + "\n")
        fresh.replace(file)
        (folder / f"{NAME}.md").write_text(page(programs, listed))


def _kept(outcome: running.Outcome) -> dict:
    import torch

    return {
        "verdict": outcome.verdict,
        "detail": outcome.detail,
        "torch": torch.__version__.partition("+")[0],
        "eager": round(outcome.plain.seconds),
        "lazuli": round(outcome.launched.seconds) if outcome.launched else None,
        "operations": outcome.launched.operations if outcome.launched else 0,
    }


def page(programs: Sequence[Program], known: dict[str, dict]) -> str:
    """What was run, how many outcomes of each kind, and a line for each program."""
    programs = [program for program in programs if program.name in known]
    counts = Counter(one["verdict"] for one in known.values())
    good = sum(counts[verdict] for verdict in running.GOOD)
    torches = ", ".join(sorted({one["torch"] for one in known.values()}))
    lines = [
        "# Programs of packages, with the launcher and without it",
        "",
        f"Written by `tools/tutorials --results`. Torch {torches}, Python "
        f"{platform.python_version()}, on the CPU with one thread.",
        "",
        f"{len(programs)} programs of {len({p.package for p in programs})} packages: {good} run "
        "as without the launcher.",
        "",
        "| outcome | programs | what it says |",
        "|---|---|---|",
        *(f"| {v} | {counts[v]} | {EXPLAINED[v]} |" for v in running.VERDICTS if counts[v]),
        "",
        "Seconds are those of the whole process: imports and first compilations are most of them. "
        "Other work ran beside.",
        "",
        "| package | program | options, arguments | field | outcome | detail | s, eager "
        "| s, lazuli |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(program, known[program.name]) for program in programs),
        "",
    ]
    return "\n".join(lines)


def _row(program: Program, one: dict) -> str:
    seconds = "" if one["lazuli"] is None else one["lazuli"]
    options = " ".join((*program.options, *program.arguments))
    detail = one["detail"].replace("\n", " ").replace("|", "\\|")
    cells = (
        f"{program.package} {program.version}",
        f"`{program.path}`",
        f"`{options}`" if options else "",
        program.field,
        one["verdict"],
        detail,
        one["eager"],
        seconds,
    )
    return f"| {' | '.join(map(str, cells))} |"
