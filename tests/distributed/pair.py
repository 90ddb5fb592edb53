"""Two processes that call functions of the tests together, one for each rank of a gloo group.

They live for many tests, because it takes seconds to start one. Whatever they wait for in vain ends
with them: a call that takes too long ends both processes, and the test fails.
"""

import os
import tempfile
import traceback
from pathlib import Path

import torch
from differential import compare, geometry

RANKS = 2
TIMEOUT = 90  # seconds for one call


def on_host(value, describe):
    """What can be sent to another process: tensors by their numbers, and what they say if asked."""
    if isinstance(value, torch.Tensor):
        numbers = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return (numbers, geometry(value)) if describe else numbers
    if isinstance(value, dict):
        return {key: on_host(v, describe) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_host(v, describe) for v in value)
    return value


def serve(rank: int, meeting: str, connection) -> None:
    """Answers calls until the other end is closed."""
    from datetime import timedelta

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(seconds=TIMEOUT),
    )
    while True:
        try:
            function, arguments, describe = connection.recv()
        except EOFError:
            break
        torch.manual_seed(0)
        try:
            answer = True, on_host(function(rank, *arguments), describe)
        except BaseException:
            answer = False, traceback.format_exc()
        connection.send(answer)
    torch.distributed.destroy_process_group()


class Pair:
    def __init__(self):
        self.processes, self.connections = [], []

    def start(self) -> None:
        context = torch.multiprocessing.get_context("spawn")
        self.folder = tempfile.TemporaryDirectory()
        meeting = str(Path(self.folder.name) / "meeting")
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        for rank in range(RANKS):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(rank, meeting, there), daemon=True)
            process.start()
            there.close()
            self.processes.append(process)
            self.connections.append(here)

    def end(self) -> None:
        for connection in self.connections:
            connection.close()
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
        self.processes, self.connections = [], []

    def run(self, function, *arguments, describe=False) -> list:
        """What `function(rank, *arguments)` returns in each process."""
        if not self.processes:
            self.start()
        for connection in self.connections:
            connection.send((function, arguments, describe))
        answers = []
        for rank, connection in enumerate(self.connections):
            try:
                answers.append(connection.recv() if connection.poll(TIMEOUT) else (False, "hangs"))
            except EOFError:
                answers.append((False, "the process ended"))
            if not answers[-1][0]:
                # The other one may wait for this one for ever.
                self.end()
                raise AssertionError(f"rank {rank}: {answers[-1][1]}")
        return [value for _, value in answers]

    def assert_same(self, function, **tolerance) -> list:
        expected, actual = (
            self.run(function, device, describe=True) for device in ("cpu", "lazuli")
        )
        for rank in range(RANKS):
            compare(actual[rank], expected[rank], f"rank {rank}", **tolerance)
        return actual
