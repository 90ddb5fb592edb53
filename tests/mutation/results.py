"""What came of each fault, kept as it comes, and the table of it."""

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

from mutation import suites
from mutation.faults import Fault
from mutation.suites import Part
from mutation.trial import Verdict

COLUMNS = {
    "core": "core tests",
    "python": "Python tests",
    "sample": "sample of programs",
    "fuzz": f"{suites.PROGRAMS:,} programs",
}


@dataclass
class Outcome:
    caught: str = ""  # by which suite
    how: str = ""
    passed: list[str] = field(default_factory=list)  # parts that it went through

    @property
    def is_open(self) -> bool:
        """Neither caught, nor through all of the suites."""
        return not self.caught and "programs" not in self.passed


class Results:
    """Of one state of the sources: those of another are no results, and forgotten."""

    def __init__(self, folder: Path, sources: str):
        self.path = folder / "results.json"
        self.lock = threading.Lock()
        self.sources = sources
        self.usual: dict[str, float] = {}  # seconds of each part without a fault
        self.faults: dict[str, Outcome] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            data = json.loads(self.path.read_text())
            if data["sources"] == sources:
                self.usual = data["usual"]
                self.faults = {key: Outcome(**row) for key, row in data["faults"].items()}

    def of(self, fault: Fault) -> Outcome:
        with self.lock:
            return self.faults.setdefault(fault.key, Outcome())

    def forget(self, fault: Fault) -> None:
        with self.lock:
            self.faults.pop(fault.key, None)

    def note(self, fault: Fault, part: Part, verdict: Verdict) -> None:
        outcome = self.of(fault)
        if verdict.passed:
            outcome.passed.append(part.name)
        else:
            outcome.caught, outcome.how = part.suite, verdict.how
        self.save()

    def note_usual(self, part: Part, seconds: float) -> None:
        self.usual[part.name] = seconds
        self.save()

    def save(self) -> None:
        with self.lock:
            rows = {key: vars(outcome) for key, outcome in self.faults.items()}
            data = {"sources": self.sources, "usual": self.usual, "faults": rows}
            fresh = self.path.with_suffix(".new")
            fresh.write_text(json.dumps(data, indent=1) + "\n")
            fresh.replace(self.path)


def table(faults: list[Fault], results: Results) -> str:
    lines = [
        "| theme | faults | " + " | ".join(COLUMNS.values()) + " | survived | not through |",
        "|---" * (len(COLUMNS) + 4) + "|",
    ]
    themes = list(dict.fromkeys(fault.theme for fault in faults))
    for theme in [*themes, "all"]:
        mine = [results.of(f) for f in faults if theme in (f.theme, "all")]
        caught = [sum(o.caught == suite for o in mine) for suite in COLUMNS]
        still_open = sum(o.is_open for o in mine)
        survived = len(mine) - sum(caught) - still_open
        lines.append(
            f"| {' | '.join(map(str, [theme, len(mine), *caught, survived, still_open]))} |"
        )
    left = [fault for fault in faults if not results.of(fault).caught]
    if left:
        lines += ["", "Not caught:", ""]
    for fault in left:
        passed = ", ".join(results.of(fault).passed) or "nothing yet"
        lines.append(f"- {fault}; through {passed}")
    only_programs = [f for f in faults if results.of(f).caught in ("sample", "fuzz")]
    if only_programs:
        lines += ["", "Caught by programs only:", ""]
        lines += [f"- {fault} ({results.of(fault).how})" for fault in only_programs]
    return "\n".join(lines) + "\n"
