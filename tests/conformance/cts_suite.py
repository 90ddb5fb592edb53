"""Runs TorchCTS on cpu and on lazuli, node by node, and writes the table of both.

On cpu much of TorchCTS compares nothing. What lazuli fails is therefore run once more on cpu under
a name that it does not know: where it then compares and eager's cpu fails too, lazuli does what
eager does, and that is the difference's reason. Some nodes look at the tensors' device instead;
they need a line in the list.

A run may be stopped at any time and started again: what is known of each device's nodes stands in a
file of the build folder, and only the rest is run. `--again` forgets what failed, or all.

Under a setting lazuli has to pass what cpu does, but for what differs without the setting, too.
"""

import argparse
import fnmatch
import re
from pathlib import Path

import report
import torch
import torchcts
from cts_report import read, write
from cts_runs import (
    COMPARED,
    Known,
    collect_all,
    compare,
    files,
    forget,
    name_of,
    node_log,
    run_device,
    run_nodes,
)
from cts_table import (
    DEVICES,
    differences,
    explained,
    not_eagers,
    stale,
    suite_of,
    tables,
    with_reruns,
    with_stored,
)
from differences import listed
from sampling import chosen
from settings import ONE_BY_ONE, PLAIN, SETTINGS, group
from torchcts.cli import DEFAULT_TEST_SUITES

VERSIONS = f"torch {torch.__version__}, TorchCTS {torchcts.__version__}, level 8"
SELECTION = Path(__file__).parent / "cts" / "selection.txt"
QUICK = 0.3  # seconds
SLOW_TO_COLLECT = ("generated", "opinfo")  # minutes, however few nodes are wanted


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
    parser.add_argument(
        "--setting",
        choices=(ONE_BY_ONE, *SETTINGS),
        default=PLAIN,
        help="what cpu passes, on lazuli under it; a row in the settings' table",
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
    if options.select:
        return select(known, options.select)
    folder = options.results or report.RESULTS
    if options.setting != PLAIN:
        found = {s: Known(f"lazuli-{s.replace(' ', '-')}") for s in group(options.setting)}
        if not options.report:
            run_under(known, found, suites, is_wanted, options)
        reports = [
            report_of_setting(setting, known, one, suites, is_wanted, options, folder)
            for setting, one in found.items()
        ]
        return max(reports)
    if not options.report:
        with node_log() as log:
            for device in options.device or DEVICES:
                if options.again:
                    forget(known[device], options.again, suites, is_wanted)
                run_device(device, suites, is_wanted, options, known[device], log)
        compare(known, options)
    return report_of(known, folder)


def run_under(known: dict[str, Known], found: dict[str, Known], suites, is_wanted, options):
    """Runs on lazuli under some settings what cpu passes; on cpu only what is not known."""
    with node_log() as log:
        run_device("cpu", suites, is_wanted, options, known["cpu"], log)
        collect_all("lazuli", suites, options, known["lazuli"], log)
        if options.again:
            for one in found.values():
                forget(one, options.again, suites, is_wanted)
        run_nodes("lazuli", passed_nodes(known, suites, is_wanted), options, found, log)
    for one in found.values():
        compare({**known, "lazuli": one}, options)


def passed_nodes(known: dict[str, Known], suites, is_wanted) -> list[str]:
    """What cpu passes and lazuli has, too."""
    on_lazuli = {node for nodes in known["lazuli"].nodes.values() for node in nodes}
    return [
        node
        for node, found in known["cpu"].outcomes.items()
        if found["outcome"] == "passed" and suite_of(node) in suites and is_wanted(node)
        if node in on_lazuli
    ]


def about(options) -> str:
    parts = [VERSIONS, *(f"suite {suite}" for suite in options.suite or ())]
    if options.only != "*":
        parts.append(f"nodes {options.only}")
    if options.share > 1:
        parts.append(f"one node in {options.share}")
    return ", ".join(parts)


def report_of_setting(
    setting: str, known, under_it: Known, suites, is_wanted, options, folder: Path
) -> int:
    """Writes the setting's row; 1 if a node that cpu passes differs without a reason."""
    nodes = passed_nodes(known, suites, is_wanted)
    ran = {node: under_it.outcomes[node] for node in nodes if node in under_it.outcomes}
    names = {name_of(node): node for node in ran}
    reasons = {names[name]: why for name, why in listed("torchcts", names, whole=False).items()}
    outcomes = {device: found.outcomes for device, found in known.items()}
    found = explained(differences({**outcomes, "lazuli": ran}), reasons)
    reasons = {node: one["reason"] for node, one in found.items() if one["reason"]}
    totals = report.write_setting("torchcts", setting, about(options), ran, reasons, folder)
    return int(totals["failed"] > 0)


def report_of(known: dict[str, Known], folder: Path) -> int:
    """Writes the table; 1 if a node differs without a reason, or for one that is none."""
    outcomes = {device: found.outcomes for device, found in known.items()}
    gaps = {
        suite: {device: gap(suite, known[device]) for device in DEVICES}
        for suite in DEFAULT_TEST_SUITES
    }
    table = {
        "about": VERSIONS,
        "suites": tables(outcomes, gaps),
        "differences": differences(outcomes),
    }
    table = with_reruns(with_stored(table, read(folder)), outcomes)
    whole = set(known["lazuli"].nodes) == set(files(DEFAULT_TEST_SUITES))
    collected = [node for nodes in known["lazuli"].nodes.values() for node in nodes]
    names = {name_of(node): node for node in [*table["differences"], *collected]}
    reasons = {names[name]: why for name, why in listed("torchcts", names, whole).items()}
    table["differences"] = explained(table["differences"], reasons)
    write(table, folder)
    unknown = [n for n, found in table["differences"].items() if not found["reason"]]
    return int(bool(unknown + not_eagers(table["differences"]) + stale(outcomes, reasons)))


def gap(suite: str, known: Known) -> str:
    """What of a suite has not run on a device: nothing, all, or how many nodes and which files."""
    paths = files([suite])
    collected = [path for path in paths if path in known.nodes]
    rest = sum(n not in known.outcomes for path in collected for n in known.nodes[path])
    if not any(suite_of(n) == suite for n in known.outcomes):
        return "all" if rest or len(collected) < len(paths) else ""
    missing = ", ".join(Path(path).stem for path in paths if path not in collected)
    parts = [f"{rest} nodes"] * bool(rest) + [f"all of {missing}"] * bool(missing)
    return " and ".join(parts)


def select(known, share: int) -> int:
    """Writes the fixed selection that runs with the tests: quick nodes that both pass."""
    quick = [
        node
        for node, found in known["cpu"].outcomes.items()
        if found["outcome"] == "passed" and found["seconds"] < QUICK and chosen(node, share)
        if known["lazuli"].outcomes.get(node, {}).get("outcome") == "passed"
        if suite_of(node) not in SLOW_TO_COLLECT
    ]
    SELECTION.write_text("".join(f"{node}\n" for node in quick))
    print(f"{len(quick)} nodes in {SELECTION}")
    return 0
