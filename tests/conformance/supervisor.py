"""Runs cases in a worker process; a crash or a hang is its case's outcome, and the rest go on."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

START_SECONDS = 900  # a worker that collects a large suite takes minutes on a busy machine
CASES_OF_A_WORKER = 1500  # a new process now and then, so that compiled kernels do not pile up


class Worker:
    """A process that reads a case's name a line and answers with a line of JSON.

    Its first line, before any case, is `greeting`. `most`: cases, before another takes its place.
    """

    def __init__(self, command: Sequence, log, most: int = CASES_OF_A_WORKER, **popen):
        self.most = most
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
            **popen,
        )
        self.answers = selectors.DefaultSelector()
        self.answers.register(self.process.stdout, selectors.EVENT_READ)
        self.done = 0
        self.greeting = self.line(START_SECONDS)
        if not self.greeting:
            self.stop()
            raise RuntimeError("the worker did not start: see its log")

    def line(self, seconds: float) -> str | None:
        """The next line; empty if the process ended, None if it did not answer in time."""
        if not self.answers.select(seconds):
            return None
        return self.process.stdout.readline().decode().strip()

    def run(self, name: str, seconds: float) -> dict:
        self.done += 1
        try:
            self.process.stdin.write(f"{name}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:  # it ended after its last answer
            return self.crash()
        line = self.line(seconds)
        if line:
            return json.loads(line)
        if line is None:
            self.stop()
            return {"outcome": "hung", "message": f"no answer in {seconds} s", "seconds": seconds}
        return self.crash()

    def crash(self) -> dict:
        status = self.process.wait()
        return {"outcome": "crashed", "message": f"the process ended with {status}", "seconds": 0}

    def is_spent(self) -> bool:
        return self.process.poll() is not None or self.done >= self.most

    def stop(self):
        # With whatever its cases have started: a process that holds a pipe open outlives them.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run_all(
    start: Callable[[Sequence[str]], Worker],
    names: Sequence[str],
    seconds: float,
    worker: Worker | None = None,
) -> Iterator[tuple[str, dict]]:
    """Yields each name with its outcome. `start` makes a worker for the names that are left.

    `worker` is one that has been started for them already.
    """
    try:
        for i, name in enumerate(names):
            if worker is None or worker.is_spent():
                if worker:
                    worker.stop()
                worker = start(names[i:])
            yield name, worker.run(name, seconds)
    finally:
        if worker:
            worker.stop()


def run_side_by_side(
    start: Callable[[Sequence[str]], Worker], parts: Sequence[Sequence[str]], seconds: float
) -> Iterator[tuple[str, dict]]:
    """The same, each part by a worker of its own, in the order in which outcomes are found."""
    found = SimpleQueue()

    def run(part: Sequence[str]):
        try:
            for result in run_all(start, part, seconds):
                found.put(result)
        finally:
            found.put(None)

    with ThreadPoolExecutor(len(parts)) as pool:
        running = [pool.submit(run, part) for part in parts]
        for _ in running:
            while result := found.get():
                yield result
        for one in running:
            one.result()
