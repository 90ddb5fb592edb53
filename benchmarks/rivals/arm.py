"""An engine as an arm that takes turns with the others."""

import json
import os
import subprocess
import tempfile

import torch

from benchmarks import harness
from benchmarks.rivals import environment


class Rival:
    """A worker's process, and what it cost to begin. Raises RuntimeError with why it ended."""

    def __init__(self, engine: str, model: str, threads: int):
        command = [environment.python(), "-m", "benchmarks.rivals.worker"]
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, engine, model, str(threads)],
            cwd=harness.ROOT,
            env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
        )
        self.begun = self._answer()

    def _answer(self) -> dict[str, object]:
        if line := self.process.stdout.readline():
            return json.loads(line)
        status = self.process.wait()
        self.said.seek(0)
        raise RuntimeError(harness.what_failed(self.said.read(), status))

    def take_turn(self, steps: int) -> tuple[float, list[torch.Tensor]]:
        """The seconds of a step, and each step's result."""
        print(steps, file=self.process.stdin, flush=True)
        answer = self._answer()
        return answer["seconds"], [torch.tensor(result) for result in answer["results"]]

    def __enter__(self) -> "Rival":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.said.close()
