"""Runs a whole suite against cpu and writes its table: see `tools/conformance opinfo --help`."""

import argparse
import fnmatch
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import report
import supervisor
import torch
from differences import listed
from known import Known, unknown
from settings import (
    ONE_BY_ONE,
    PLAIN,
    SETTINGS,
    group,
    started,
)
from suites import SUITES, suite

WORKER = Path(__file__).with_name("worker.py")


def parsed():
    parser = argparse.ArgumentParser(prog="tools/conformance", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("-k", "--only", default="*", help="cases of this pattern: 'add/*/float32'")
    parser.add_argument(
        "--setting",
        choices=("all", ONE_BY_ONE, *SETTINGS),
        default=PLAIN,
        help="all: under each of them",
    )
    parser.add_argument("--shard", default="1/1", help="the n-th of m parts: 2/4")
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time; 1")
    parser.add_argument("--samples", default="all", help="how many of each case; all")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one case")
    parser.add_argument("--resume", action="store_true", help="go on where such a run was stopped")
    parser.add_argument("--results", type=Path, help="folder for the tables")
    return parser.parse_args()


def outcomes_of(options, settings, names, expected, log):
    """Of each setting the outcome of each case; one worker runs a case under all of them."""
    command = started(settings, [sys.executable, WORKER, options.suite, options.samples])
    most = supervisor.CASES_OF_A_WORKER * len(settings)
    known = {setting: Known(options.suite, setting) for setting in settings}
    if not options.resume:
        for one in known.values():
            one.forget(lambda *_: True)

    parts = [unknown(names[part :: options.jobs], settings, known) for part in range(options.jobs)]
    cases = {line: case for part in parts for line, case in part.items()}
    for line, result in supervisor.run_side_by_side(
        lambda _: supervisor.Worker(command, log, most), list(map(list, parts)), options.timeout
    ):
        setting, name = cases[line]
        known[setting].add(name, result)
        if report.verdict(result["outcome"], expected.get(name)) == "failed":
            first = result["message"].split("\n")[0][:200]
            print(f"{setting}: {result['outcome']:8} {name}: {first}", flush=True)
    return {s: {name: found.outcomes[name] for name in names} for s, found in known.items()}


def about(options) -> str:
    parts = [f"torch {torch.__version__}", f"{options.samples} samples"]
    if options.shard != "1/1":
        parts.append(f"part {options.shard}")
    if options.only != "*":
        parts.append(f"cases {options.only}")
    return ", ".join(parts)


def main() -> int:
    if sys.argv[1:2] == ["torchcts"]:
        import cts_suite  # TorchCTS is loaded for nothing else

        return cts_suite.main(sys.argv[2:])
    if sys.argv[1:2] == ["models"]:
        import model_suite  # nor transformers, timm and torchvision

        return model_suite.main(sys.argv[2:])
    options = parsed()
    part, parts = (int(n) for n in options.shard.split("/"))
    cases = suite(options.suite).cases()
    names = fnmatch.filter(cases, options.only)[part - 1 :: parts]
    expected = listed(options.suite, cases)
    groups = list(map(group, SETTINGS if options.setting == "all" else [options.setting]))
    whole = parts == 1 and options.samples == "all"
    whole = whole and (options.only == "*" or groups != [[PLAIN]])
    folder = options.results or (report.RESULTS if whole else Path(tempfile.mkdtemp()))
    failed = 0
    with tempfile.NamedTemporaryFile(prefix="conformance", suffix=".log", delete=False) as log:
        print(f"what operators print: {log.name}")
        for settings in groups:
            for setting, outcomes in outcomes_of(options, settings, names, expected, log).items():
                if groups == [[PLAIN]]:
                    found = report.write(options.suite, about(options), outcomes, expected, folder)
                else:
                    found = report.write_setting(
                        options.suite, setting, about(options), outcomes, expected, folder
                    )
                failed += found["failed"]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
