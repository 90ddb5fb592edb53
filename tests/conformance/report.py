"""The results of a run as JSON (every case that is not simply right) and as a Markdown table."""

import collections
import json
from pathlib import Path

from differences import must_differ
from folders import RESULTS

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


def totals(table: dict) -> dict:
    return {c: sum(found[c] for found in table.values()) for c in COLUMNS}


def lines_of(first: str, rows: dict) -> list[str]:
    """A Markdown table: of each row its name and counts."""
    lines = [f"| {first} | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, found in rows.items():
        lines.append("| " + " | ".join([name, *(str(found[c]) for c in COLUMNS)]) + " |")
    return lines


def store(name: str, text: str, report: dict, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)
    plain = json.dumps(report, indent=1).replace(f"{Path(__file__).parents[2]}/", "")
    (folder / f"{name}.json").write_text(plain + "\n")
    print(text)
    print(f"written to {folder}")


def remarkable(outcomes: dict, listed: dict) -> dict:
    return {
        name: {**result, "listed": listed.get(name)}
        for name, result in outcomes.items()
        if result["outcome"] != "passed" or name in listed
    }


def markdown(suite: str, report: dict) -> str:
    table = report["counts"]
    rows = lines_of("aspect", {**table, "all": totals(table)})
    return "\n".join([f"# {suite}", "", report["about"], "", *rows]) + "\n"


def write(suite: str, about: str, outcomes: dict, listed: dict, folder: Path = RESULTS) -> dict:
    table = counts(outcomes, listed)
    report = {"about": about, "counts": table, "cases": remarkable(outcomes, listed)}
    store(suite, markdown(suite, report), report, folder)
    return totals(table)


def write_setting(
    suite: str, setting: str, about: str, outcomes: dict, listed: dict, folder: Path = RESULTS
) -> dict:
    """Puts a run under one setting among those of the others, which stay."""
    name = f"{suite}-settings"
    file = folder / f"{name}.json"
    report = json.loads(file.read_text()) if file.exists() else {}
    found = totals(counts(outcomes, listed))
    failed = {n: r for n, r in outcomes.items() if verdict(r["outcome"], listed.get(n)) == "failed"}
    report[f"{setting}: {about}"] = {"counts": found, "failed": failed}
    rows = lines_of("setting", {row: entry["counts"] for row, entry in report.items()})
    store(name, "\n".join([f"# {suite} under settings", "", *rows]) + "\n", report, folder)
    return found
