"""What a taken-over program is told: once for each of its lines, on stderr."""

import sys

_said: set[tuple[str, int, str]] = set()
_SKIPPED = ("torch.", "torch_lazuli", "contextlib", "functools")


def say_once(text: str) -> None:
    """Says it, after the file and line of the program that led here."""
    file, line = _line_of_program()
    if (file, line, text) not in _said:
        _said.add((file, line, text))
        print(f"{file}:{line}: lazuli: {text}", file=sys.stderr)


def _line_of_program() -> tuple[str, int]:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module != "torch" and not module.startswith(_SKIPPED):
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
