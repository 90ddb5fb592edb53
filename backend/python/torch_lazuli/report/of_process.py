"""The report of a whole process, for which LAZULI_REPORT names a file."""

import atexit
import os
import sys
from pathlib import Path

import torch

from torch_lazuli.report import page

VARIABLE = "LAZULI_REPORT"


def start() -> None:
    """Begins it, as the plugin is loaded. It is written when the process ends.

    Processes that this one starts write none, except those of torchrun: a rank other than 0 writes
    its own beside the first one's. Says so where none can be written.
    """
    path = _of_rank(Path(os.environ.pop(VARIABLE)).absolute())
    try:
        page.check(path)
    except OSError as error:  # now, and not when a long run has ended
        print(f"lazuli: there will be no report in {path}: {error}", file=sys.stderr)
        return
    torch.ops.lazuli._report_start()
    atexit.register(_write, path, os.getpid())


def _of_rank(path: Path) -> Path:
    rank = os.environ.get("RANK", "0")
    return path if rank == "0" else path.with_name(f"{path.stem}.{rank}{path.suffix}")


def _write(path: Path, process: int) -> None:
    if os.getpid() != process:
        return  # a fork of it ends
    from torch_lazuli import report

    try:
        report.write(path)
    except Exception as error:  # the program has ended, and its own error counts
        print(f"lazuli: no report is written to {path}: {error}", file=sys.stderr)
    else:
        print(f"lazuli: the report is in {path}", file=sys.stderr)
