"""TorchCTS's nodes: their names and files, workers that run them, and what is known of each."""

import collections
import contextlib
import functools
import json
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import supervisor
import torchcts
from cts_table import DEVICES, differences, suite_of
from folders import FOUND
from known import unknown
from settings import PLAIN, setting_of, started
from torchcts.cli import DEFAULT_TEST_SUITES

HERE = Path(__file__).parent
PACKAGES = Path(torchcts.__file__).resolve().parent.parent
COMPARED = "compared"  # cpu, like another device
FEWEST_OF_A_PART = 100


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

    def __init__(self, device: str, folder: Path = FOUND):
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


def start(device: str, lines, log, settings=(PLAIN,)) -> supervisor.Worker:
    """A worker that collects the files of some nodes.

    Pytest would compare each of thousands of names with each of a file's.
    """
    nodes = (setting_of(line, settings)[1] for line in lines)
    collected = dict.fromkeys(node.partition("::")[0] for node in nodes)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as arguments:
        arguments.write("\n".join(f"{PACKAGES}/{one}" for one in collected))
        arguments.flush()
        command = [sys.executable, HERE / "cts_worker.py", device, f"@{arguments.name}"]
        most = supervisor.CASES_OF_A_WORKER * len(settings)
        return supervisor.Worker(started(settings, command), log, most, cwd=HERE / "cts")


def collect(device: str, file: str, known: Known, log):
    """Finds a file's nodes, if they are not known yet."""
    if file not in known.nodes:
        worker = start(device, [file], log)
        worker.stop()
        known.add({"file": file, "nodes": json.loads(worker.greeting)})


def run_nodes(device: str, nodes, options, known: dict[str, Known], log):
    """Runs nodes under each of some settings, unless it is known what they give there."""
    settings = list(known)

    def run(part):
        rest = unknown(part, settings, known)
        again = functools.partial(start, device, log=log, settings=settings)
        for line, outcome in supervisor.run_all(again, list(rest), options.timeout):
            setting, node = rest[line]
            known[setting].add({"node": node, **outcome})
            if device in DEVICES and outcome["outcome"] not in ("passed", "skipped"):
                first = outcome["message"].split("\n")[0][:160]
                where = device if setting == PLAIN else f"{device}, {setting}:"
                print(f"{where} {outcome['outcome']:7} {node}: {first}", flush=True)

    nodes = [n for n in nodes if any(n not in one.outcomes for one in known.values())]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, sorted(parts_of(nodes, options.jobs), key=len, reverse=True)))


def parts_of(nodes, jobs: int) -> list[list[str]]:
    """What each worker runs: a long file's nodes are several's, and short files' are one's.

    With few nodes finding them again takes longest.
    """
    by_file = collections.defaultdict(list)
    for node in nodes:
        by_file[node.partition("::")[0]].append(node)
    parts, short = [], []
    for some in by_file.values():
        if len(some) >= FEWEST_OF_A_PART:
            count = min(jobs, len(some) // FEWEST_OF_A_PART)
            parts += [some[part::count] for part in range(count)]
            continue
        short += some
        if len(short) >= FEWEST_OF_A_PART:
            parts.append(short)
            short = []
    return parts + [short] * bool(short)


def collect_all(device: str, suites, options, known: Known, log) -> list[str]:
    """The nodes of some suites on a device."""
    paths = files(suites)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda file: collect(device, file, known, log), paths))
    return [node for file in paths for node in known.nodes[file]]


def run_device(device, suites, is_wanted, options, known, log):
    nodes = [n for n in collect_all(device, suites, options, known, log) if is_wanted(n)]
    run_nodes(device, nodes, options, {PLAIN: known}, log)


def forget(known: Known, which: str, suites, is_wanted):
    """Forgets what shall run again: what failed, or all."""
    known.forget(
        lambda node, found: (
            is_wanted(node)
            and suite_of(node) in suites
            and (which == "all" or found["outcome"] not in ("passed", "skipped"))
        )
    )


def compare(known: dict[str, Known], options):
    """Runs on cpu, with the comparison, what lazuli fails and cpu passes without."""
    differing = differences({device: found.outcomes for device, found in known.items()})
    with node_log() as log:
        run_nodes(COMPARED, differing, options, {PLAIN: known[COMPARED]}, log)


@contextlib.contextmanager
def node_log():
    """A file for what nodes print."""
    with tempfile.NamedTemporaryFile(prefix="torchcts", suffix=".log", delete=False) as log:
        print(f"what nodes print: {log.name}")
        yield log
