"""Runs cases in a worker process; a crash or a hang is its case's outcome, and the rest go on."""

import json
import os
import selectors
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("worker.py")
CASES_OF_A_WORKER = 1500  # a new process now and then, so that compiled kernels do not pile up


class Worker:
    def __init__(self, suite: str, samples: str, log):
        self.process = subprocess.Popen(
            [sys.executable, WORKER, suite, samples],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
        )
        self.answers = selectors.DefaultSelector()
        self.answers.register(self.process.stdout, selectors.EVENT_READ)
        self.done = 0
        if self.line(seconds=300) != "ready":
            self.stop()
            raise RuntimeError("the worker did not start: see its log")

    def line(self, seconds: float) -> str | None:
        """The next line; empty if the process ended, None if it did not answer in time."""
        if not self.answers.select(seconds):
            return None
        return self.process.stdout.readline().decode().strip()

    def run(self, name: str, seconds: float) -> dict:
        self.done += 1
        self.process.stdin.write(f"{name}\n".encode())
        self.process.stdin.flush()
        line = self.line(seconds)
        if line:
            return json.loads(line)
        if line is None:
            self.stop()
            return {"outcome": "hung", "message": f"no answer in {seconds} s", "seconds": seconds}
        status = self.process.wait()
        return {"outcome": "crashed", "message": f"the process ended with {status}", "seconds": 0}

    def is_spent(self) -> bool:
        return self.process.poll() is not None or self.done >= CASES_OF_A_WORKER

    def stop(self):
        self.process.kill()
        self.process.wait()


def run_all(suite: str, names, samples: str, seconds: float, log):
    """Yields each name with its outcome."""
    worker = None
    try:
        for name in names:
            if worker is None or worker.is_spent():
                if worker:
                    worker.stop()
                worker = Worker(suite, samples, log)
            yield name, worker.run(name, seconds)
    finally:
        if worker:
            worker.stop()
