"""Measures generation on a CPU, a token a step: milliseconds a token, and how near to the memory's
speed the weights are read, in float32 and in fewer bits.

A decoder of 12 layers of 768 with a vocabulary of 32,768 generates from a prompt of 16 tokens, with
a cache that grows through all turns, and each token is read before the next. `GB/s` is the bytes of
the weights that a token reads (all but the embeddings, and without the cache) over its time; `of
memory` is that over what two threads read at best in the same minutes: sums in registers along
halves of a memory as large as the model in float32, fetched ahead, the better of usual and large
pages (benchmarks/kernels/bandwidth_core.cpp). `int8` are weights of int8 as torchao multiplies
them, `int4` torch's packed ones, `dynamic int8` what torch.ao.quantization.quantize_dynamic makes.
The arms and the memory take turns; medians.
"""

import gc
import json
import statistics
import subprocess
import time
from pathlib import Path

import torch

from benchmarks import harness
from benchmarks.decode import decoder, weights

PROGRAM = "bandwidth_core"
WARM_UP = 2  # turns


class Memory:
    """The program that reads memory as fast as it can, and waits in between."""

    def __init__(self, path: Path, size: int, threads: int) -> None:
        self.process = subprocess.Popen(
            [path, str(size), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self) -> dict[str, float]:
        """GB/s, by the kind of pages."""
        print(file=self.process.stdin, flush=True)
        measured = json.loads(self.process.stdout.readline())
        return {pages: rate / 1e9 for pages, rate in measured.items()}

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Arm:
    """A generation by a model with such weights, its tokens, and what its turns took."""

    def __init__(self, arm: str, kind: str, most: int) -> None:
        torch.manual_seed(0)
        model = decoder.Decoder(decoder.PROMPT + most).eval()
        with torch.no_grad():
            model = weights.KINDS[kind](model)
        self.name, self.bytes = arm, weights.bytes_read(model)
        device = harness.device_of(arm)
        model = harness.compiled(arm, model.to(device), dynamic=True)
        self.generation = decoder.Generation(model, device)
        self.given: list[int] = []
        self.seconds: list[float] = []  # a token, by turn

    def turn(self, tokens: int, keep: bool = True) -> None:
        self.given.append(self.generation.step())  # finds the caches as another arm left them
        begin = time.perf_counter()
        given = [self.generation.step() for _ in range(tokens)]
        if keep:
            self.seconds.append((time.perf_counter() - begin) / tokens)
        self.given += given


def measure(kind: str, arms: list[str], memory: Memory, rounds: int, tokens: int) -> list[dict]:
    made = [Arm(arm, kind, (rounds + WARM_UP) * (tokens + 1)) for arm in arms]
    for arm in made * WARM_UP:
        arm.turn(tokens, keep=False)
    reads = []
    for number in range(rounds):
        reads.append(memory.measure())
        for arm in made if number % 2 == 0 else reversed(made):
            arm.turn(tokens)
    rates = {pages: statistics.median(read[pages] for read in reads) for pages in reads[0]}
    return [row(kind, arm, made[0].given, rates) for arm in made]


def row(kind: str, arm: Arm, first: list[int], rates: dict[str, float]) -> dict[str, object]:
    taken, best = statistics.median(arm.seconds), max(rates.values())
    rate = arm.bytes / taken / 1e9
    return {
        "weights": kind,
        "arm": arm.name,
        "ms/token": taken * 1e3,
        "MB/token": arm.bytes / 1e6,
        "GB/s": rate,
        "memory": best,
        "of memory": rate / best,
        "same tokens": sum(a == b for a, b in zip(arm.given, first, strict=True)) / len(first),
        "pages": rates,
    }


def main() -> None:
    parser = harness.argument_parser("decode", __doc__)
    parser.add_argument(
        "--weights", nargs="+", choices=list(weights.KINDS), default=list(weights.KINDS)
    )
    parser.add_argument("--tokens", type=int, default=16, help="of a turn")
    parser.set_defaults(arms=["eager", "lazuli"])
    arguments = parser.parse_args()
    harness.start(arguments)
    if harness.on_gpu():
        parser.error("generation is measured on a CPU")
    size = 4 * (decoder.LAYERS * 12 * decoder.WIDTH**2 + decoder.VOCABULARY * decoder.WIDTH)
    memory = Memory(harness.core_program(PROGRAM), size, arguments.threads)
    rows = []
    for kind in arguments.weights:
        rows += measure(kind, arguments.arms, memory, arguments.rounds, arguments.tokens)
        gc.collect()
    memory.close()
    harness.print_table(rows)
    harness.save(arguments.json, rows)


if __name__ == "__main__":
    main()
