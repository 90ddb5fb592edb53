"""A program in this process, and in new ones."""

import multiprocessing
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch
import torch._dynamo  # which the first step of any optimizer imports

from benchmarks import harness
from benchmarks.programs import deciding, learning, making, numerics

PROGRAMS = learning.PROGRAMS | making.PROGRAMS | deciding.PROGRAMS | numerics.PROGRAMS
FORK = multiprocessing.get_context("fork")
FIRST = 20  # steps that are timed apart
# Those whose random numbers the device draws: others than the CPU's, so that losses differ.
DRAWN_THERE = {"early-stopping", "policy-gradient", "vae"}


@dataclass
class Ran:
    """What a program took, in seconds, and the loss of each of its steps."""

    start: float
    whole: float
    first: float
    losses: list[float]


def run_here(name: str, arm: str) -> Ran:
    """Runs the program from its beginning. The device's first use is timed apart."""
    losses: list[float] = []
    first = 0.0
    device = harness.device_of(arm)
    begin = time.perf_counter()
    torch.ones(1, device=device).item()
    start = time.perf_counter() - begin
    torch.manual_seed(0)
    begin = time.perf_counter()
    for loss in PROGRAMS[name](device):
        losses.append(loss)
        if len(losses) == FIRST:
            first = time.perf_counter() - begin
    harness.synchronize(arm)
    return Ran(start, time.perf_counter() - begin, first, losses)


def run_elsewhere(name: str, arm: str, threads: int, caches: str) -> Ran:
    """The same in a new process, which keeps its kernels in the folder `caches`.

    It is forked from this one, which has imported what programs need, and must not have used the
    device. Raises RuntimeError with the error's text if the program fails.
    """
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_run_and_tell, args=(sender, name, arm, threads, caches))
    child.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        found = "it ended without a word"
    child.join()
    if isinstance(found, str):
        raise RuntimeError(f"{name} on {arm}: {found} (exit status {child.exitcode})")
    return found


def _run_and_tell(sender: Connection, name: str, arm: str, threads: int, caches: str) -> None:
    os.environ["LAZULI_CACHE_DIR"] = caches
    torch.set_num_threads(threads)
    try:
        sender.send(run_here(name, arm))
    except Exception as error:
        sender.send(f"{type(error).__name__}: {error}")
        raise
