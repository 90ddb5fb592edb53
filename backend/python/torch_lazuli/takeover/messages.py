"""What a taken-over program is told on stderr: once for each of its lines, and at its end."""

import atexit
import os
import sys

import torch

from torch_lazuli.takeover.request import HINT

_said: set[tuple[str, int, str]] = set()
_SKIPPED = ("torch.", "torch_lazuli", "contextlib", "functools")


def say_once(text: str) -> None:
    """Says it, after the file and line of the program that led here."""
    file, line = _line_of_program()
    if (file, line, text) not in _said:
        _said.add((file, line, text))
        print(f"{file}:{line}: lazuli: {text}", file=sys.stderr)


def hint_if_unused() -> None:
    """At the end of the program that the launcher started: says that it ran on the CPU, if the
    launcher chose to map cuda only and the program did not use it."""
    if os.environ.get(HINT) == str(os.getpid()):
        atexit.register(_hint)


def _hint() -> None:
    if not torch.lazuli.is_initialized() and not hasattr(sys, "last_value"):
        print(
            "lazuli: the program did not use cuda, and ran on the CPU. "
            "With --from cuda,cpu it runs on lazuli",
            file=sys.stderr,
        )


def _line_of_program() -> tuple[str, int]:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module != "torch" and not module.startswith(_SKIPPED):
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
