"""Runs a program in a process of its own: a crash or a hang is a way to fail like any other.

The process is a fork of this one, which must not have computed on lazuli yet; so each run begins
with empty caches, and takes no time to start.
"""

import contextlib
import json
import os
import resource
import selectors
import signal
import traceback
import warnings

import torch

from fuzz.oracle import Difference, check
from fuzz.program import Program
from fuzz.scope import on_gpu

SECONDS = 20
WORDS = 40  # letters of an error that say which one it is


@contextlib.contextmanager
def settings(changes: dict):
    with torch.lazuli.config.patch(**changes) if changes else contextlib.nullcontext():
        yield


def outcome(program: Program, seconds: float = SECONDS, before=(), **changes) -> Difference | None:
    """What `check` says of it under changed settings; `before` are programs that run first."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: the child uses one
        child = os.fork()
    if child == 0:
        answer(writer, program, before, changes)
    os.close(writer)
    try:
        text = read(reader, seconds)
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    if text is None:
        return Difference("hang", 0, 0, "", f"no answer in {seconds} s", "?")
    if not text:
        return Difference("crash", 0, 0, "", f"the process ended with {status}", "?")
    fields = json.loads(text)
    return Difference(**fields) if fields else None


def answer(writer: int, program: Program, before, changes):
    """The child's part: it ends here."""
    status = 1  # until the answer is given
    try:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            torch.set_num_threads(1)
            if not on_gpu():
                torch.lazuli.config.random = "eager"
            with settings(changes):
                for one in before:
                    check(one)
                found = check(program)
            text = json.dumps(vars(found) if found else {})
        except BaseException as error:  # the fuzzer's own, or what a library ends a process with
            kind = f"fuzzer: {type(error).__name__}"
            text = json.dumps(vars(Difference(kind, 0, 0, "", traceback.format_exc(), "?")))
        os.write(writer, text.encode())
        status = 0
    finally:
        os._exit(status)


def read(reader: int, seconds: float) -> str | None:
    """Everything that the child writes; None if it writes nothing in time."""
    waiting = selectors.DefaultSelector()
    waiting.register(reader, selectors.EVENT_READ)
    text = b""
    while True:
        if not waiting.select(seconds):
            return None
        part = os.read(reader, 1 << 16)
        if not part:
            return text.decode()
        text += part


def alike(a: Difference | None, b: Difference) -> bool:
    """The same kind of difference at the same kind of place."""
    if a is None:
        return False
    if "error" in a.kind and a.detail[:WORDS] != b.detail[:WORDS]:
        return False
    return a.kind == b.kind and a.operator.split(" ")[:1] == b.operator.split(" ")[:1]
