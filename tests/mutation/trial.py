"""Runs one part under a limit of time and memory, and says whether it passed."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

from mutation.suites import Part
from mutation.tree import Tree

MOST_BYTES = 24 << 30  # of a process that grows without end
# The first test that failed, in the words of GoogleTest, pytest and tools/fuzz.
FAILURES = (
    re.compile(r"^\[  FAILED  \] (\S+?),? ", re.M),
    re.compile(r"^(?:FAILED|ERROR) (\S+)", re.M),
    re.compile(r"(--seed \d+ --only \d+)"),
)


@dataclass(frozen=True)
class Verdict:
    passed: bool
    how: str  # what failed, or how it ended
    seconds: float


def run(tree: Tree, part: Part, planted: int | None, limit: float | None) -> Verdict:
    start = time.monotonic()
    environment = tree.environment(planted) | {"OMP_NUM_THREADS": str(part.threads)}
    if part.suite == "fuzz":
        environment["PYTHONPATH"] = str(tree.folder / "tests")
    with tempfile.TemporaryFile() as output:
        # A group of its own, since tests have children that would live on.
        process = subprocess.Popen(
            part.command,
            cwd=tree.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=bound_memory,
        )
        in_time = ends_within(process, limit)
        code = end_group(process)
        seconds = time.monotonic() - start
        output.seek(0)
        text = output.read().decode(errors="replace")
    if not in_time:
        return Verdict(False, f"no end after {limit:.0f} s", seconds)
    if code == 0:
        return Verdict(True, "", seconds)
    return Verdict(False, reason(text, code), seconds)


def reason(text: str, code: int) -> str:
    for pattern in FAILURES:
        if found := pattern.search(text):
            return found[1]
    if code < 0:
        return f"crash ({signal.Signals(-code).name})"
    return f"status {code}: {text.strip().splitlines()[-1][:200] if text.strip() else ''}"


def ends_within(process: subprocess.Popen, limit: float | None) -> bool:
    """Waits without taking the status: until that is taken, the number is nobody else's."""
    until = time.monotonic() + (limit or float("inf"))
    options = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while os.waitid(os.P_PID, process.pid, options) is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def end_group(process: subprocess.Popen) -> int:
    """Ends what the process has left behind, and the process; its status."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
