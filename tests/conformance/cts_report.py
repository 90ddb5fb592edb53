"""The table of TorchCTS on two devices as JSON and Markdown, with the nodes that differ."""

import collections
import json
from pathlib import Path

from cts_table import DEVICES, OUTCOMES, suite_of


def row(suite: str, found: dict, differ: int) -> str:
    cells = [suite, *(str(found[device][o]) for device in DEVICES for o in OUTCOMES)]
    return "| " + " | ".join([*cells, str(found["compared"]), str(differ)]) + " |"


def total(suites: dict) -> dict:
    found = {
        device: {o: sum(s[device][o] for s in suites.values()) for o in OUTCOMES}
        for device in DEVICES
    }
    return {**found, "compared": sum(s["compared"] for s in suites.values())}


def gaps(device: str, suites: dict) -> str:
    """What has not run on a device."""
    texts = {suite: found["gaps"][device] for suite, found in suites.items()}
    found = [s if text == "all" else f"of {s} {text}" for s, text in texts.items() if text]
    return f"not run on {device}: {'; '.join(found)}" if found else f"all suites ran on {device}"


def markdown(report: dict) -> str:
    suites, differing = report["suites"], report["differences"]
    ran = {s: f for s, f in suites.items() if any(any(f[d].values()) for d in DEVICES)}
    differ = collections.Counter(map(suite_of, differing))
    header = ["suite", *(f"{device} {o}" for device in DEVICES for o in OUTCOMES)]
    header += ["cpu passes, lazuli ran", "of these lazuli fails"]
    about = "; ".join([report["about"], *(gaps(device, suites) for device in DEVICES)])
    lines = ["# torchcts", "", about, "", "| " + " | ".join(header) + " |"]
    lines.append("|---" * len(header) + "|")
    lines += [row(suite, found, differ[suite]) for suite, found in ran.items()]
    every = total(suites)
    lines.append(row("all", every, len(differing)))
    compared = every["compared"]
    share = 100 * (1 - len(differing) / max(compared, 1))
    as_eager = sum(found["as_eager"] for found in differing.values())
    others = 100 * (1 - (len(differing) - as_eager) / max(compared - as_eager, 1))
    lines += [
        "",
        f"lazuli passes {share:.2f} % of the nodes that cpu passes, and {others:.2f} % of",
    ]
    lines += ["those that cpu passes when it is compared like another device.", ""]
    lines += reasons_of(differing)
    return "\n".join(lines)


def reasons_of(differing: dict) -> list[str]:
    groups = collections.defaultdict(list)
    for node, found in sorted(differing.items()):
        groups[found["reason"] or "no reason is known"].append(node)
    lines = []
    for reason, nodes in groups.items():
        lines += [f"## {reason}", "", *(f"- `{node}`" for node in nodes), ""]
    return lines


def read(folder: Path) -> dict:
    """The report that is stored in a folder, or one of nothing."""
    path = folder / "torchcts.json"
    return json.loads(path.read_text()) if path.exists() else {"suites": {}, "differences": {}}


def write(report: dict, folder: Path):
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(report)
    (folder / "torchcts.md").write_text(text)
    (folder / "torchcts.json").write_text(json.dumps(report, indent=1) + "\n")
    print(text)
    print(f"written to {folder}")
