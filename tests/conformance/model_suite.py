"""Takes a step of many models on cpu and on lazuli, and writes the table of what differs.

A run may be stopped at any time and started again: what is known stands in a file of the build
folder, and only the rest is run. `--again` forgets what failed, or all.
"""

import argparse
import fnmatch
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import model_report
import supervisor
import torch
from known import Known, unknown
from model_cases import cases
from report import RESULTS
from settings import (
    FILES,
    ONE_BY_ONE,
    PLAIN,
    SAMPLE,
    SETTINGS,
    group,
    started,
)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def start(settings: list[str], log) -> supervisor.Worker:
    worker = [sys.executable, HERE / "worker.py", "models", "all"]
    return supervisor.Worker(started(settings, worker), log)


def run_tests(setting: str, file: str, seconds: float) -> dict:
    """A file of tests under the setting."""
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", file],
            cwd=ROOT,
            env={**os.environ, **SETTINGS[setting]},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        outcome, message = ("failed" if done.returncode else "passed"), done.stdout[-4000:]
    except subprocess.TimeoutExpired:
        outcome, message = "hung", f"no answer in {seconds} s"
    taken = time.perf_counter() - began
    return {"outcome": outcome, "message": message if outcome != "passed" else "", "seconds": taken}


def results(settings: list[str], cases: dict[str, tuple[str, str]], options, log):
    models = list(dict.fromkeys(name for _, name in cases.values() if name not in FILES))
    # What one worker runs of a model: it compiles once what is the same under several settings.
    parts = [set(models[part :: options.jobs]) for part in range(options.jobs)]
    parts = [[line for line, (_, name) in cases.items() if name in part] for part in parts]
    yield from supervisor.run_side_by_side(lambda _: start(settings, log), parts, options.timeout)
    for file, (setting, name) in cases.items():
        if name in FILES:
            yield file, run_tests(setting, name, options.timeout)


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="tools/conformance models", description=__doc__)
    parser.add_argument("-k", "--only", default="*", help="models of this pattern: 'timm/*'")
    parser.add_argument(
        "--setting",
        choices=("all", ONE_BY_ONE, *SETTINGS),
        default=PLAIN,
        help="all: a sample and some tests under each",
    )
    parser.add_argument("--shard", default="1/1", help="the n-th of m parts: 2/4")
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time; 1")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one model")
    parser.add_argument("--again", choices=("failed", "all"), help="run these again though known")
    parser.add_argument("--results", type=Path, help="folder for the table")
    parser.add_argument("--report", action="store_true", help="run nothing, write the table")
    return parser.parse_args(arguments)


def run(settings: list[str], names: list[str], options, log):
    """Runs what is not known yet."""
    known = {setting: Known("models", setting) for setting in settings}
    if options.again:
        every = options.again == "all"
        for one in known.values():
            one.forget(lambda n, found: n in names and (every or found["outcome"] != "passed"))
    rest = unknown(names, settings, known)
    for line, result in results(settings, rest, options, log):
        setting, name = rest[line]
        known[setting].add(name, result)
        if result["outcome"] != "passed":
            first = result["message"].split("\n")[0][:200]
            print(f"{setting}: {result['outcome']:7} {name}: {first}", flush=True)


def main(arguments) -> int:
    options = parsed(arguments)
    every = options.setting == "all"
    groups = list(map(group, SETTINGS if every else [options.setting]))
    settings = [setting for one in groups for setting in one]
    wanted = [*SAMPLE, *FILES] if every else list(cases())
    part, parts = (int(n) for n in options.shard.split("/"))
    names = fnmatch.filter(wanted, options.only)[part - 1 :: parts]
    if not options.report:
        with tempfile.NamedTemporaryFile(prefix="models", suffix=".log", delete=False) as log:
            print(f"what models print: {log.name}")
            for one in groups:
                run(one, names, options, log)
    known = {setting: Known("models", setting).outcomes for setting in settings}
    found = {s: {n: o[n] for n in wanted if n in o} for s, o in known.items()}
    whole = all(len(outcomes) == len(wanted) for outcomes in found.values())
    folder = options.results or (RESULTS if whole else Path(tempfile.mkdtemp()))
    about = f"torch {torch.__version__}, one thread"
    if not whole:
        about += f"; run so far: {sum(map(len, found.values()))} of {len(wanted) * len(settings)}"
    if every:
        model_report.write_settings(about, found, folder)
    elif options.setting == ONE_BY_ONE:
        model_report.write_group(ONE_BY_ONE, about, found, folder)
    else:
        model_report.write(options.setting, about, found[options.setting], folder)
    outcomes = [result for one in found.values() for result in one.values()]
    return int(any(result["outcome"] != "passed" for result in outcomes))
