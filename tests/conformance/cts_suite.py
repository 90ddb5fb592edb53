"""Runs TorchCTS on cpu and on lazuli, node by node, and writes the table of both.

On cpu much of TorchCTS compares nothing. What lazuli fails is therefore run once more on cpu under
a name that it does not know: where it then compares and eager's cpu fails too, lazuli does what
eager does, and that is the difference's reason. Some nodes look at the tensors' device instead;
they need a line in the list.

A run may be stopped at any time and started again: what is known of each device's nodes stands in a
file of the build folder, and only the rest is run. `--again` forgets what failed, or all.
"""

import argparse
import collections
import fnmatch
import functools
import json
import re
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import supervisor
import torch
import torchcts
from cts_report import read, write
from cts_table import DEVICES, differences, explained, stale, tables, with_reruns, with_stored
from differences import listed
from report import RESULTS
from sampling import chosen
from torchcts.cli import DEFAULT_TEST_SUITES

HERE = Path(__file__).parent
PACKAGES = Path(torchcts.__file__).resolve().parent.parent
KNOWN = HERE.parents[1] / "build" / "conformance"
COMPARED = "compared"  # cpu, like another device
SELECTION = HERE / "cts" / "selection.txt"
QUICK = 0.3  # seconds
FEWEST_OF_A_PART = 25
SLOW_TO_COLLECT = ("generated", "opinfo")  # minutes, however few nodes are wanted


def name_of(node: str) -> str:
    """A node's name for patterns: `suite/file/test/parameters`, like the other suites' cases."""
    file, _, test = node.removeprefix("torchcts/").partition(".py::")
    test, _, parameters = test.replace("::", ".", 1).partition("[")
    return f"{file}/{test}/{parameters.removesuffix(']')}"


def files(suites) -> list[str]:
    """The test files of some suites, from the folder of packages on."""
    found = []
    for suite in DEFAULT_TEST_SUITES:
        if suite in suites:
            paths = sorted((PACKAGES / "torchcts" / suite).rglob("test_*.py"))
            found += [str(path.relative_to(PACKAGES)) for path in paths]
    return found


class Known:
    """What is known of a device: the nodes of each file, and the outcome of each node that ran."""

    def __init__(self, device: str, folder: Path = KNOWN):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"torchcts-{device}.jsonl"
        self.nodes, self.outcomes = {}, {}
        self.lock = threading.Lock()
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                self.take(json.loads(line))

    def take(self, line: dict):
        if "file" in line:
            self.nodes[line["file"]] = line["nodes"]
        else:
            self.outcomes[line.pop("node")] = line

    def add(self, line: dict):
        with self.lock, self.path.open("a") as out:
            out.write(json.dumps(line) + "\n")
            self.take(dict(line))

    def forget(self, is_forgotten):
        kept = {n: o for n, o in self.outcomes.items() if not is_forgotten(n, o)}
        lines = [{"file": file, "nodes": nodes} for file, nodes in self.nodes.items()]
        lines += [{"node": node, **outcome} for node, outcome in kept.items()]
        self.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.outcomes = kept


def start(device: str, nodes, log) -> supervisor.Worker:
    """A worker that collects the files of some nodes.

    Pytest would compare each of thousands of names with each of a file's.
    """
    collected = dict.fromkeys(node.partition("::")[0] for node in nodes)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as arguments:
        arguments.write("\n".join(f"{PACKAGES}/{one}" for one in collected))
        arguments.flush()
        command = [sys.executable, HERE / "cts_worker.py", device, f"@{arguments.name}"]
        return supervisor.Worker(command, log, cwd=HERE / "cts")


def collect(device: str, file: str, known: Known, log):
    """Finds a file's nodes, if they are not known yet."""
    if file not in known.nodes:
        worker = start(device, [file], log)
        worker.stop()
        known.add({"file": file, "nodes": json.loads(worker.greeting)})


def run_nodes(device: str, nodes, options, known: Known, log):
    by_file = collections.defaultdict(list)
    for node in nodes:
        by_file[node.partition("::")[0]].append(node)
    parts = [part for some in by_file.values() for part in parts_of(some, options.jobs)]

    def run(part):
        again = functools.partial(start, device, log=log)
        for node, outcome in supervisor.run_all(again, part, options.timeout):
            known.add({"node": node, **outcome})
            if device in DEVICES and outcome["outcome"] not in ("passed", "skipped"):
                first = outcome["message"].split("\n")[0][:160]
                print(f"{device} {outcome['outcome']:7} {node}: {first}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, sorted(parts, key=len, reverse=True)))


def parts_of(nodes, jobs: int):
    """A file's nodes for some workers, none with so few that finding them again takes longest."""
    parts = max(1, min(jobs, len(nodes) // FEWEST_OF_A_PART))
    return [nodes[part::parts] for part in range(parts)]


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="tools/conformance torchcts", description=__doc__)
    parser.add_argument("--suite", action="append", choices=DEFAULT_TEST_SUITES, help="all")
    parser.add_argument("--device", action="append", choices=DEVICES, help="both")
    parser.add_argument(
        "-k", "--only", default="*", help="nodes of this pattern: 'rng/*/test_seed*'"
    )
    parser.add_argument(
        "--share", type=int, default=1, help="a fixed sample of one node in so many"
    )
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time; 1")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one node")
    parser.add_argument("--again", choices=("failed", "all"), help="run these again though known")
    parser.add_argument(
        "--select", type=int, help="run nothing, write one node in so many as the tests' own"
    )
    parser.add_argument(
        "--results", type=Path, help="folder for the table; tests/conformance/results"
    )
    parser.add_argument("--report", action="store_true", help="run nothing, write the table")
    return parser.parse_args(arguments)


def is_wanted_by(options):
    matches = re.compile(fnmatch.translate(options.only)).match
    return lambda node: bool(matches(name_of(node))) and chosen(node, options.share)


def main(arguments) -> int:
    options = parsed(arguments)
    suites = options.suite or DEFAULT_TEST_SUITES
    is_wanted = is_wanted_by(options)
    known = {device: Known(device) for device in (*DEVICES, COMPARED)}
    if not (options.report or options.select):
        with tempfile.NamedTemporaryFile(prefix="torchcts", suffix=".log", delete=False) as log:
            print(f"what nodes print: {log.name}")
            for device in options.device or DEVICES:
                run_device(device, suites, is_wanted, options, known[device], log)
    if options.select:
        return select(known, options.select)
    if not options.report:
        compare(known, options)
    return report_of(known, options.results or RESULTS)


def report_of(known: dict[str, Known], folder: Path) -> int:
    """Writes the table; 1 if a node differs without a reason, or is listed and does not differ."""
    outcomes = {device: found.outcomes for device, found in known.items()}
    gaps = {
        suite: {device: gap(suite, known[device]) for device in DEVICES}
        for suite in DEFAULT_TEST_SUITES
    }
    report = {
        "about": f"torch {torch.__version__}, TorchCTS {torchcts.__version__}, level 8",
        "suites": tables(outcomes, gaps),
        "differences": differences(outcomes),
    }
    report = with_reruns(with_stored(report, read(folder)), outcomes)
    whole = set(known["lazuli"].nodes) == set(files(DEFAULT_TEST_SUITES))
    collected = [node for nodes in known["lazuli"].nodes.values() for node in nodes]
    names = {name_of(node): node for node in [*report["differences"], *collected]}
    reasons = {names[name]: why for name, why in listed("torchcts", names, whole).items()}
    report["differences"] = explained(report["differences"], reasons)
    write(report, folder)
    unknown = [n for n, found in report["differences"].items() if not found["reason"]]
    return int(bool(unknown + stale(outcomes, reasons)))


def gap(suite: str, known: Known) -> str:
    """What of a suite has not run on a device: nothing, all, or how many nodes and which files."""
    paths = files([suite])
    collected = [path for path in paths if path in known.nodes]
    rest = sum(n not in known.outcomes for path in collected for n in known.nodes[path])
    if not any(n.split("/")[1] == suite for n in known.outcomes):
        return "all" if rest or len(collected) < len(paths) else ""
    missing = ", ".join(Path(path).stem for path in paths if path not in collected)
    parts = [f"{rest} nodes"] * bool(rest) + [f"all of {missing}"] * bool(missing)
    return " and ".join(parts)


def compare(known: dict[str, Known], options):
    """Runs on cpu, with the comparison, what lazuli fails and cpu passes without."""
    differing = differences({device: found.outcomes for device, found in known.items()})
    rest = [node for node in differing if node not in known[COMPARED].outcomes]
    with tempfile.NamedTemporaryFile(prefix="torchcts", suffix=".log", delete=False) as log:
        run_nodes(COMPARED, rest, options, known[COMPARED], log)


def select(known, share: int) -> int:
    """Writes the fixed selection that runs with the tests: quick nodes that both pass."""
    quick = [
        node
        for node, found in known["cpu"].outcomes.items()
        if found["outcome"] == "passed" and found["seconds"] < QUICK and chosen(node, share)
        if known["lazuli"].outcomes.get(node, {}).get("outcome") == "passed"
        if node.split("/")[1] not in SLOW_TO_COLLECT
    ]
    SELECTION.write_text("".join(f"{node}\n" for node in quick))
    print(f"{len(quick)} nodes in {SELECTION}")
    return 0


def run_device(device, suites, is_wanted, options, known, log):
    if options.again:
        every = options.again == "all"
        known.forget(
            lambda node, found: (
                is_wanted(node)
                and node.split("/")[1] in suites
                and (every or found["outcome"] not in ("passed", "skipped"))
            )
        )
    paths = files(suites)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda file: collect(device, file, known, log), paths))
    nodes = [node for file in paths for node in known.nodes[file] if is_wanted(node)]
    run_nodes(device, [n for n in nodes if n not in known.outcomes], options, known, log)
