"""`python -m torch_lazuli` and `lazuli`: starts a Python program that is taken over.

It sets an environment variable and becomes the Python that would have run without it. So exit code,
signals, tracebacks, `sys.argv`, `sys.path` and `__main__` are what they are without it, and so are
debuggers, profilers and torchrun. Needs no torch.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from torch_lazuli.takeover.request import AUTO, HINT, VARIABLE, Request, RequestError

_CUDA = re.compile(rb"\bcuda\b")
_ENDS = ("-m", "-c", "-")


def main() -> None:
    """Becomes the program. Leaves with status 2 if the command line is wrong."""
    arguments = sys.argv[1:]
    first = _length_of_options(arguments)
    options, program = arguments[:first], arguments[first:]
    parser = _parser()
    chosen = parser.parse_args(options)
    if not program:
        parser.error("there is no program to run")
    try:
        request = Request.parse(chosen.mapped, chosen.keep)
    except RequestError as error:
        parser.error(str(error))
    os.environ.pop(HINT, None)
    if request.until_cuda and says_cuda(program):
        request = Request.parse("cuda")
        os.environ[HINT] = str(os.getpid())  # the program's, whose children get none
    if chosen.random:
        os.environ["LAZULI_RANDOM"] = {"lazuli": "philox"}.get(chosen.random, chosen.random)
    if chosen.report:
        os.environ["LAZULI_REPORT"] = os.path.abspath(chosen.report)
    os.environ[VARIABLE] = str(request)
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *_interpreter_options(), *program])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lazuli",
        usage="lazuli [options] (script.py | -m module | -c code) [arguments ...]",
        description="Runs a Python program that uses torch on lazuli, whatever device it names.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--from",
        dest="mapped",
        metavar="DEVICES",
        default=AUTO,
        help="devices that are taken over: cuda, cpu or cuda,cpu. With cpu, tensors for which no "
        "device is named are on lazuli too. Unless set: cuda; and cpu, if the program's "
        "file does not contain the word cuda, until cuda is named elsewhere",
    )
    parser.add_argument(
        "--keep", metavar="DEVICES", default="", help="devices that are left alone: cuda or cpu"
    )
    parser.add_argument(
        "--random",
        choices=["lazuli", "eager"],
        help="whose random numbers are drawn on the device. eager: those of the CPU, as "
        "LAZULI_RANDOM=eager",
    )
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        default="",
        help="a page with what each line, step and kernel took, written when the program ends",
    )
    return parser


def _length_of_options(arguments: Sequence[str]) -> int:
    """How many of the arguments are the launcher's own: those before the program."""
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        if argument.startswith(("-m", "-c")) or argument in _ENDS or argument[:1] != "-":
            break
        index += 2 if argument in ("--from", "--keep", "--random", "--report") else 1
    return min(index, len(arguments))


def _interpreter_options() -> list[str]:
    """Those of the Python that runs: `-X`, `-W` and so on."""
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv[1:])]
    if before[-2:-1] == ["-m"]:
        return before[:-2]
    return before[:-1]  # -mtorch_lazuli, or the path of the command


def says_cuda(program: Sequence[str]) -> bool:
    """Whether the program's file contains the word cuda.

    The program is the first Python file on its command line (`-m pdb train.py`), or else the
    module. What cannot be read does not say it.
    """
    if program[0].startswith("-c"):
        code = program[0][2:] or "".join(program[1:2])
        return bool(_CUDA.search(code.encode()))
    file = next((word for word in program if word.endswith(".py")), "")
    if not os.path.isfile(file):
        module = program[1:2] if program[0] == "-m" else [program[0][2:]]
        file = _file_of_module(module[0]) if module else ""
    try:
        with open(file, "rb") as opened:
            return bool(_CUDA.search(opened.read()))
    except OSError:
        return False


def _file_of_module(name: str) -> str:
    """Its path; empty if there is none. (To import pathlib would take longer than all of this.)"""
    path = name.replace(".", os.sep)
    for folder in ("", *sys.path):
        for file in (f"{path}.py", os.path.join(path, "__main__.py")):
            if os.path.isfile(found := os.path.join(folder, file)):
                return found
    return ""
