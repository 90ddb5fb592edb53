"""The process of an engine: takes a model, and turns when it is told to.

    python -m benchmarks.rivals.worker <engine> <model> <threads>

Its messages are lines of JSON. The first says what it cost to convert the model and to run it once.
Then each line that it reads is a number of steps: a turn, as in turns.py. Its answer has the
turn's seconds, and each step's result.
"""

import json
import os
import sys
import time

import torch

from benchmarks.models import heads, zoo
from benchmarks.rivals.engines import ENGINES, Positional


def main() -> None:
    engine, name, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    # What libraries print goes to the other stream.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(message: dict[str, object]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, make_batch = zoo.MODELS[name]()
    batch = heads.without_labels(make_batch())
    positional = Positional(heads.Inference(model), list(batch)).eval()
    operands = tuple(batch.values())
    arrays = [operand.numpy() for operand in operands]

    begin = time.perf_counter()
    with torch.no_grad():
        run = ENGINES[engine](positional, operands, threads)
    converted = time.perf_counter()
    run(arrays)
    answer({"convert s": converted - begin, "first s": time.perf_counter() - converted})
    for line in sys.stdin:
        steps = int(line)
        run(arrays)
        begin = time.perf_counter()
        kept = [run(arrays) for _ in range(steps)]
        seconds = (time.perf_counter() - begin) / steps
        answer({"seconds": seconds, "results": [result.tolist() for result in kept]})


if __name__ == "__main__":
    main()
