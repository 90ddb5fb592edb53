"""Takes a step of many models on cpu and on lazuli, and writes the table of what differs.

A run may be stopped at any time and started again: what is known stands in a file of the build
folder, and only the rest is run. `--again` forgets what failed, or all.
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import model_report
import supervisor
import torch
from model_cases import cases
from report import RESULTS
from settings import FILES, PLAIN, SAMPLE, SETTINGS, under

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KNOWN = ROOT / "build" / "conformance"


class Known:
    """What is known under a setting: the outcome of each model that ran."""

    def __init__(self, setting: str, folder: Path = KNOWN):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"models-{setting.replace(' ', '-')}.jsonl"
        self.outcomes = {}
        if self.path.exists():
            for line in map(json.loads, self.path.read_text().splitlines()):
                self.outcomes[line.pop("model")] = line

    def add(self, name: str, outcome: dict):
        with self.path.open("a") as out:
            out.write(json.dumps({"model": name, **outcome}) + "\n")
        self.outcomes[name] = outcome

    def forget(self, is_forgotten):
        self.outcomes = {n: o for n, o in self.outcomes.items() if not is_forgotten(n, o)}
        lines = [json.dumps({"model": n, **o}) + "\n" for n, o in self.outcomes.items()]
        self.path.write_text("".join(lines))


def start(setting: str, log) -> supervisor.Worker:
    worker = [sys.executable, HERE / "worker.py", "models", "all"]
    return supervisor.Worker(under(setting, worker), log)


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


def results(setting: str, names: list[str], seconds: float, log):
    models = [name for name in names if name not in FILES]
    yield from supervisor.run_all(lambda _: start(setting, log), models, seconds)
    for file in names:
        if file in FILES:
            yield file, run_tests(setting, file, seconds)


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="tools/conformance models", description=__doc__)
    parser.add_argument("-k", "--only", default="*", help="models of this pattern: 'timm/*'")
    parser.add_argument(
        "--setting",
        choices=("all", *SETTINGS),
        default=PLAIN,
        help="all: a sample and some tests under each",
    )
    parser.add_argument("--shard", default="1/1", help="the n-th of m parts: 2/4")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one model")
    parser.add_argument("--again", choices=("failed", "all"), help="run these again though known")
    parser.add_argument("--results", type=Path, help="folder for the table")
    parser.add_argument("--report", action="store_true", help="run nothing, write the table")
    return parser.parse_args(arguments)


def run(setting: str, names: list[str], options, log):
    """Runs what is not known yet."""
    known = Known(setting)
    if options.again:
        every = options.again == "all"
        known.forget(lambda n, found: n in names and (every or found["outcome"] != "passed"))
    rest = [name for name in names if name not in known.outcomes]
    for name, result in results(setting, rest, options.timeout, log):
        known.add(name, result)
        if result["outcome"] != "passed":
            first = result["message"].split("\n")[0][:200]
            print(f"{setting}: {result['outcome']:7} {name}: {first}", flush=True)


def main(arguments) -> int:
    options = parsed(arguments)
    every = options.setting == "all"
    settings = list(SETTINGS) if every else [options.setting]
    wanted = [*SAMPLE, *FILES] if every else list(cases())
    part, parts = (int(n) for n in options.shard.split("/"))
    names = fnmatch.filter(wanted, options.only)[part - 1 :: parts]
    if not options.report:
        with tempfile.NamedTemporaryFile(prefix="models", suffix=".log", delete=False) as log:
            print(f"what models print: {log.name}")
            for setting in settings:
                run(setting, names, options, log)
    known = {setting: Known(setting).outcomes for setting in settings}
    found = {s: {n: o[n] for n in wanted if n in o} for s, o in known.items()}
    whole = all(len(outcomes) == len(wanted) for outcomes in found.values())
    folder = options.results or (RESULTS if whole else Path(tempfile.mkdtemp()))
    about = f"torch {torch.__version__}, one thread"
    if not whole:
        about += f"; run so far: {sum(map(len, found.values()))} of {len(wanted) * len(settings)}"
    if every:
        model_report.write_settings(about, found, folder)
    else:
        model_report.write(options.setting, about, found[options.setting], folder)
    outcomes = [result for one in found.values() for result in one.values()]
    return int(any(result["outcome"] != "passed" for result in outcomes))
