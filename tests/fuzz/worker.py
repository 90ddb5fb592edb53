"""Runs programs by their numbers, one a line, in a process that one of them may end.

`python -m fuzz.worker SEED LENGTH THREADS [THEME]`. Answers each line with a line of JSON.
"""

import gc
import json
import os
import re
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import torch  # noqa: E402

torch.backends.cudnn.allow_tf32 = False  # as on the CPU; torch's test data forbids it later

from fuzz import known_differences, oracle  # noqa: E402
from fuzz.execute import Record, execute  # noqa: E402
from fuzz.generate import generate  # noqa: E402
from fuzz.scope import EAGER, LAZULI, on_gpu  # noqa: E402

LOOKED = 250  # programs between two looks at memory


# A GPU draws other numbers than the CPU.
DRAWING = re.compile(
    r"rand|dropout|Dropout|bernoulli|multinomial|uniform_|normal_\(|torch\.normal\(|exponential_"
    r"|cauchy_|geometric_|poisson|rrelu|RReLU|random_|gumbel|fractional_max_pool"
)


def draws(program) -> bool:
    return DRAWING.search(str(program)) is not None


def leaves_range(eager: Record) -> bool:
    """Whether an index did, or a divisor was zero.

    Eager's kernels on a GPU then end all work there, or give any number.
    """
    wrong = "range|bounds|size|index|ZeroDivision"
    return any(re.search(wrong, e.message) for e in eager.errors.values())


def run(seed: int, k: int, length: int, threads: int, about: str = "") -> dict:
    """A program; or as many as there are threads, all at once."""
    made = [generate(seed, k * threads + t, length, threads == 1, about) for t in range(threads)]
    programs = [program for program, _ in made]
    eager = [execute(program, EAGER) for program in programs]
    if on_gpu() and any(draws(p) or leaves_range(e) for p, e in zip(programs, eager, strict=True)):
        return {"outcome": "passed", "message": "", "facts": {}}
    if threads == 1:
        lazuli = [execute(programs[0], LAZULI, eager[0].errors)]
    else:
        with warnings.catch_warnings(), ThreadPoolExecutor(threads) as pool:
            lazuli = list(pool.map(lambda p, e: execute(p, LAZULI, e.errors), programs, eager))
    shadows, excuses = oracle.seen_by_shadows(), []
    for program, e, a in zip(programs, eager, lazuli, strict=True):
        difference = oracle.compare(program, e, a) or shadows
        if difference not in (None, shadows) and not known_differences.listed(program, difference):
            difference = oracle.compare(program, e, a, oracle.MOST) or shadows
        if difference is None:
            continue
        if reason := known_differences.listed(program, difference):
            excuses.append(reason)
        else:
            facts = {"signature": difference.signature, "program": vars(program)}
            return {"outcome": "failed", "message": str(difference), "facts": facts}
    pairs = [pair for _, found in made for pair in found]
    return {"outcome": "passed", "message": "", "facts": {"pairs": pairs, "excuses": excuses}}


def memory() -> dict:
    gc.collect()
    torch.lazuli.synchronize()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    seen = torch.lazuli.metrics()
    now = {"live": seen["bytes_live"], "kernels": seen["kernels_compiled"]}
    return {"process": os.getpid(), "resident": resident, **now}


def main():
    seed, length, threads = map(int, sys.argv[1:4])
    about = "".join(sys.argv[4:])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if not on_gpu():
        torch.lazuli.config.random = "eager"
    torch.lazuli.synchronize()
    print("ready", file=answers)
    for done, line in enumerate(sys.stdin, 1):
        start = time.perf_counter()
        try:
            found = run(seed, int(line), length, threads, about)
        except torch.AcceleratorError:  # the GPU is lost to this process: the next goes on
            os._exit(1)
        except Exception as error:  # the fuzzer's own: it is reported like a failure
            import traceback

            facts = {"signature": f"fuzzer: {type(error).__name__}"}
            found = {"outcome": "failed", "message": traceback.format_exc(), "facts": facts}
        if done % LOOKED == 0:
            found["facts"]["memory"] = {"programs": done, **memory()}
        print(json.dumps({**found, "seconds": time.perf_counter() - start}), file=answers)


if __name__ == "__main__":
    main()
