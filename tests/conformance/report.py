"""The results of a run as JSON (every case that is not simply right) and as a Markdown table."""

import collections
import json
from pathlib import Path

from differences import must_differ

RESULTS = Path(__file__).with_name("results")
COLUMNS = ("passed", "listed", "failed")


def verdict(outcome: str, reason: str | None) -> str:
    """A listed case has to fail; what does otherwise than it should is a failure."""
    if reason and outcome == "passed":
        return "failed" if must_differ(reason) else "passed"
    return "listed" if reason else "passed" if outcome == "passed" else "failed"


def counts(outcomes: dict, listed: dict) -> dict:
    table = collections.defaultdict(collections.Counter)
    for name, result in outcomes.items():
        aspect = name.split("/")[1]
        table[aspect][verdict(result["outcome"], listed.get(name))] += 1
    return {aspect: {c: table[aspect][c] for c in COLUMNS} for aspect in table}


def markdown(suite: str, about: str, table: dict) -> str:
    rows = [[aspect, *(str(found[c]) for c in COLUMNS)] for aspect, found in table.items()]
    rows.append(["all", *(str(sum(found[c] for found in table.values())) for c in COLUMNS)])
    lines = [f"# {suite}", "", about, "", "| aspect | " + " | ".join(COLUMNS) + " |"]
    lines.append("|---" * (len(COLUMNS) + 1) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(suite: str, about: str, outcomes: dict, listed: dict, folder: Path = RESULTS):
    folder.mkdir(parents=True, exist_ok=True)
    table = counts(outcomes, listed)
    remarkable = {
        name: {**result, "listed": listed.get(name)}
        for name, result in outcomes.items()
        if result["outcome"] != "passed" or name in listed
    }
    report = {"about": about, "counts": table, "cases": remarkable}
    text = json.dumps(report, indent=1).replace(f"{Path(__file__).parents[2]}/", "")
    (folder / f"{suite}.json").write_text(text + "\n")
    (folder / f"{suite}.md").write_text(markdown(suite, about, table))
    return table
