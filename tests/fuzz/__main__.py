"""Random programs on eager and on lazuli: see `tools/fuzz --help`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CONFORMANCE = Path(__file__).parents[1] / "conformance"
FOLDER = Path(__file__).parents[2] / "build" / "fuzz"  # for failures
sys.path.append(str(CONFORMANCE))

import supervisor  # noqa: E402
from settings import PLAIN, SETTINGS, under  # noqa: E402

from fuzz.generate import LENGTH, generate  # noqa: E402
from fuzz.outcomes import Outcomes  # noqa: E402
from fuzz.scope import on_gpu  # noqa: E402
from fuzz.themes import THEMES  # noqa: E402

SECONDS = 60  # for a program
REDUCED = 2  # programs of a group


def parsed():
    parser = argparse.ArgumentParser(prog="tools/fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time; 1")
    parser.add_argument("--setting", choices=("all", *SETTINGS), default=PLAIN)
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="what backs lazuli; cpu"
    )
    parser.add_argument("--only", type=int, help="just the program of this number, and print it")
    parser.add_argument(
        "--steps", type=int, default=LENGTH, help=f"statements of the longest programs; {LENGTH}"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="programs that run at the same time; 1"
    )
    parser.add_argument(
        "--about", choices=THEMES, default="", help="what programs are about; any operators"
    )
    parser.add_argument("--coverage", type=Path, help="a file for the pairs of operators")
    parser.add_argument("--keep-going", action="store_true", help="beyond the first failure")
    parser.add_argument(
        "--shrink", type=float, default=60, help="seconds for a failure; 60, 0: none"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for failures")
    return parser.parse_args()


def environment() -> dict:
    """Of workers, and of what shrinks. On a GPU random numbers cannot be those of eager's CPU.

    An arena of malloc's for each thread keeps what others have freed: memory seems to grow.
    """
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    random = {} if on_gpu() else {"LAZULI_RANDOM": "eager"}
    return {"MALLOC_ARENA_MAX": "2", **os.environ, "PYTHONPATH": path, **random}


def run(options, setting: str, log) -> Outcomes:
    os.environ.update(environment())
    arguments = [str(options.seed), str(options.steps), str(options.threads)]
    arguments += [options.about] if options.about else []
    command = under(setting, [sys.executable, "-m", "fuzz.worker", *arguments])
    last = options.first + options.programs
    names = [str(k) for k in range(options.first, last)]
    if options.only is not None:
        names = [str(options.only)]
    outcomes = Outcomes(options, setting, len(names))
    parts = [names[i :: options.jobs] for i in range(options.jobs)]
    found = supervisor.run_side_by_side(
        lambda _: supervisor.Worker(command, log, most=2000), parts, SECONDS * options.threads
    )
    for k, result in found:
        outcomes.add(int(k), result)
        if outcomes.groups and not options.keep_going:
            found.close()
            break
    return outcomes


def reduced(files: list[Path], setting: str, seconds: float, log):
    """Yields each one's script, as soon as it is there."""
    command = [sys.executable, "-m", "fuzz.reduce_failure", str(seconds), *files]
    with subprocess.Popen(
        under(setting, command), stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
    ) as process:
        yield from (json.loads(line) for line in process.stdout)


def main() -> int:
    options = parsed()
    os.environ["LAZULI_BACKING"] = options.device
    failed = 0
    if options.only is not None:
        alone = options.threads == 1
        print(generate(options.seed, options.only, options.steps, alone, options.about)[0])
    with tempfile.NamedTemporaryFile(prefix="fuzz", suffix=".log", delete=False) as log:
        print(f"what programs print: {log.name}")
        for setting in SETTINGS if options.setting == "all" else [options.setting]:
            outcomes = run(options, setting, log)
            if options.shrink:
                outcomes.reduce(
                    lambda files, s=setting: reduced(files, s, options.shrink, log), REDUCED
                )
            print(outcomes.report())
            failed += len(outcomes.groups)
            if options.coverage:
                outcomes.coverage.save(options.coverage)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
