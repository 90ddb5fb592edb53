"""What TorchCTS gave, suite by suite: what ran here, or what is stored where more of a suite ran.

A run takes hours, and few machines have made all of it: what is written anew keeps the suites that
have not run here as far as they had, but for the nodes that have run here since.
"""

import collections
import copy

from differences import must_differ

OUTCOMES = ("passed", "failed", "skipped", "crashed", "hung")
DEVICES = ("cpu", "lazuli")
EAGERS = "eager's cpu fails it too, when it is compared like another device"


def suite_of(node: str) -> str:
    return node.split("/")[1]


def counts(outcomes: dict) -> dict:
    """How often there is each outcome, by suite."""
    table = collections.defaultdict(collections.Counter)
    for node, found in outcomes.items():
        table[suite_of(node)][found["outcome"]] += 1
    return {suite: {o: table[suite][o] for o in OUTCOMES} for suite in table}


def compared_nodes(outcomes: dict) -> list[str]:
    cpu = outcomes["cpu"]
    return [n for n in outcomes["lazuli"] if cpu.get(n, {}).get("outcome") == "passed"]


def differences(outcomes: dict) -> dict:
    """The nodes that cpu passes and lazuli does not, with their outcome.

    `as_eager`: cpu does not pass it either, when it is compared.
    """
    compared = outcomes.get("compared", {})
    eagers = {n for n, found in compared.items() if found["outcome"] not in ("passed", "skipped")}
    return {
        node: {**outcomes["lazuli"][node], "as_eager": node in eagers}
        for node in compared_nodes(outcomes)
        if outcomes["lazuli"][node]["outcome"] != "passed"
    }


def tables(outcomes: dict, gaps: dict) -> dict:
    """Of each suite the outcomes' counts on both devices, and what of it has not run there."""
    found = {device: counts(outcomes[device]) for device in DEVICES}
    compared = collections.Counter(map(suite_of, compared_nodes(outcomes)))
    none = dict.fromkeys(OUTCOMES, 0)
    return {
        suite: {
            **{device: found[device].get(suite, none) for device in DEVICES},
            "compared": compared[suite],
            "gaps": gaps[suite],
        }
        for suite in gaps
    }


def size(suite: dict) -> tuple:
    """How much of a suite ran: on both devices first, and then on either."""
    return suite["compared"], sum(sum(suite[device].values()) for device in DEVICES)


def with_stored(report: dict, stored: dict) -> dict:
    """A report with the suites of the stored one of which more nodes ran."""
    suites = dict(report["suites"])
    kept = {s for s, found in stored["suites"].items() if size(found) > size(suites[s])}
    suites |= {suite: stored["suites"][suite] for suite in kept}
    differing = {n: f for n, f in report["differences"].items() if suite_of(n) not in kept}
    differing |= {n: f for n, f in stored["differences"].items() if suite_of(n) in kept}
    return {**report, "suites": suites, "differences": differing}


def with_reruns(report: dict, outcomes: dict) -> dict:
    """A report, of stored suites too, with the outcomes of what ran on lazuli since.

    What is stored of a suite are counts and its differences. So a node that ran here counts where
    it is one of those, or where it ran here on cpu too: there lazuli passed it.
    """
    suites, differing = copy.deepcopy(report["suites"]), dict(report["differences"])
    found_here = differences(outcomes)
    for node, found in outcomes["lazuli"].items():
        on_cpu = outcomes["cpu"].get(node, {}).get("outcome")
        before = differing[node]["outcome"] if node in differing else "passed"
        if found["outcome"] == before or (node not in differing and on_cpu != "passed"):
            continue
        counted = suites[suite_of(node)]["lazuli"]
        counted[before] -= 1
        counted[found["outcome"]] += 1
        if found["outcome"] == "passed":
            del differing[node]
        else:
            differing[node] = {**found_here.get(node, {"as_eager": False}), **found}
    return {**report, "suites": suites, "differences": differing}


def explained(differing: dict, reasons: dict) -> dict:
    """The differences with the list's reasons, or that eager differs too."""
    return {
        node: {**found, "reason": reasons.get(node) or (EAGERS if found["as_eager"] else None)}
        for node, found in sorted(differing.items())
    }


def not_eagers(differing: dict) -> list[str]:
    """The nodes that are listed as eager's, and that cpu passes when it is compared."""
    return [n for n, found in differing.items() if is_eagers(found["reason"]) > found["as_eager"]]


def is_eagers(reason: str | None) -> bool:
    return (reason or "").removeprefix("on some CPUs, ").startswith("as eager")


def stale(outcomes: dict, reasons: dict) -> list[str]:
    """The nodes that lazuli passes though they are listed as failing on every CPU."""
    passed = (n for n, found in outcomes["lazuli"].items() if found["outcome"] == "passed")
    return sorted(node for node in passed if node in reasons and must_differ(reasons[node]))
