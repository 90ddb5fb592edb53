"""The results of TorchCTS on two devices: a table by suite, and every node of which they differ."""

import collections
import json
from pathlib import Path

from report import RESULTS

OUTCOMES = ("passed", "failed", "skipped", "crashed", "hung")


def suite_of(node: str) -> str:
    return node.split("/")[1]


def counts(outcomes: dict) -> dict:
    """How often there is each outcome, by suite."""
    table = collections.defaultdict(collections.Counter)
    for node, found in outcomes.items():
        table[suite_of(node)][found["outcome"]] += 1
    return {suite: {o: table[suite][o] for o in OUTCOMES} for suite in table}


EAGERS = "eager's cpu fails it too, when it is compared like another device"


def differences(outcomes: dict, reasons: dict) -> dict:
    """The nodes that cpu passes and lazuli does not: the outcome and the reason.

    `as_eager`: cpu does not pass it either, when it is compared.
    """
    compared = outcomes.get("compared", {})
    eagers = {n for n, found in compared.items() if found["outcome"] not in ("passed", "skipped")}
    return {
        node: {
            **found,
            "as_eager": node in eagers,
            "reason": reasons.get(node) or (EAGERS if node in eagers else None),
        }
        for node, found in outcomes["lazuli"].items()
        if found["outcome"] != "passed" and outcomes["cpu"].get(node, {}).get("outcome") == "passed"
    }


def stale(outcomes: dict, reasons: dict) -> list[str]:
    """The listed nodes that lazuli passes."""
    passed = (n for n, found in outcomes["lazuli"].items() if found["outcome"] == "passed")
    return sorted(node for node in passed if node in reasons)


def row(suite: str, tables: dict, differ: collections.Counter, both: int) -> str:
    cells = [suite]
    for table in tables.values():
        cells += [str(table.get(suite, {}).get(outcome, 0)) for outcome in OUTCOMES]
    return "| " + " | ".join([*cells, str(both), str(differ[suite])]) + " |"


def markdown(about: str, outcomes: dict, differing: dict) -> str:
    tables = {device: counts(outcomes[device]) for device in ("cpu", "lazuli")}
    suites = list(dict.fromkeys(suite for table in tables.values() for suite in table))
    for table in tables.values():
        table["all"] = {o: sum(t[o] for t in table.values()) for o in OUTCOMES}
    compared = collections.Counter(suite_of(node) for node in compared_nodes(outcomes))
    compared["all"] = sum(compared.values())
    differ = collections.Counter(map(suite_of, differing))
    differ["all"] = len(differing)
    header = ["suite", *(f"{device} {o}" for device in tables for o in OUTCOMES)]
    header += ["cpu passes, lazuli ran", "of these lazuli fails"]
    lines = ["# torchcts", "", about, "", "| " + " | ".join(header) + " |"]
    lines.append("|---" * len(header) + "|")
    lines += [row(suite, tables, differ, compared[suite]) for suite in [*suites, "all"]]
    share = 100 * (1 - differ["all"] / max(compared["all"], 1))
    as_eager = sum(found["as_eager"] for found in differing.values())
    others = 100 * (1 - (differ["all"] - as_eager) / max(compared["all"] - as_eager, 1))
    lines += [
        "",
        f"lazuli passes {share:.2f} % of the nodes that cpu passes, and {others:.2f} % of",
    ]
    lines += ["those that cpu passes when it is compared like another device.", ""]
    lines += reasons_of(differing)
    return "\n".join(lines)


def compared_nodes(outcomes: dict) -> list[str]:
    cpu = outcomes["cpu"]
    return [n for n in outcomes["lazuli"] if cpu.get(n, {}).get("outcome") == "passed"]


def reasons_of(differing: dict) -> list[str]:
    groups = collections.defaultdict(list)
    for node, found in sorted(differing.items()):
        groups[found["reason"] or "no reason is known"].append(node)
    lines = []
    for reason, nodes in groups.items():
        lines += [f"## {reason}", "", *(f"- `{node}`" for node in nodes), ""]
    return lines


def write(about: str, outcomes: dict, reasons: dict, folder: Path | None) -> list[str]:
    """Writes the table, and returns the nodes whose difference has no reason or is none."""
    folder = folder or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    differing = differences(outcomes, reasons)
    text = markdown(about, outcomes, differing)
    (folder / "torchcts.md").write_text(text)
    report = {"about": about, "differences": differing}
    (folder / "torchcts.json").write_text(json.dumps(report, indent=1) + "\n")
    print(text)
    print(f"written to {folder}")
    return [n for n, found in differing.items() if not found["reason"]] + stale(outcomes, reasons)
