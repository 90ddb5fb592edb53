"""What a run has found so far, so that one that was stopped can go on."""

import json
from pathlib import Path

from folders import FOUND
from settings import setting_of, tagged


class Known:
    """What is known of a suite under a setting: the outcome of each case that ran."""

    def __init__(self, suite: str, setting: str, folder: Path = FOUND):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{suite}-{setting.replace(' ', '-')}.jsonl"
        self.outcomes = {}
        if self.path.exists():
            for line in map(json.loads, self.path.read_text().splitlines()):
                self.outcomes[line.pop("case")] = line

    def add(self, name: str, outcome: dict):
        with self.path.open("a") as out:
            out.write(json.dumps({"case": name, **outcome}) + "\n")
        self.outcomes[name] = outcome

    def forget(self, is_forgotten):
        self.outcomes = {n: o for n, o in self.outcomes.items() if not is_forgotten(n, o)}
        lines = [json.dumps({"case": n, **o}) + "\n" for n, o in self.outcomes.items()]
        self.path.write_text("".join(lines))


def unknown(names, settings: list[str], known: dict) -> dict[str, tuple[str, str]]:
    """The lines of what has not run yet, each with its setting and case."""
    cases = {line: setting_of(line, settings) for line in tagged(names, settings)}
    return {line: (s, name) for line, (s, name) in cases.items() if name not in known[s].outcomes}
