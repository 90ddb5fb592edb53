"""Without which setting or pass a difference vanishes."""

import sys
from pathlib import Path

from fuzz.oracle import Difference
from fuzz.program import Program
from fuzz.same_way import alike, outcome

sys.path.append(str(Path(__file__).parents[1] / "conformance"))
from settings import passes

CHANGES = {
    "fusion": {"fusion": False},
    "inline backward": {"inline_backward": False},
    "repeated backward": {"repeat_backward": "off"},
    "parts": {"tiers": "plans"},
    "cuts where it repeats": {"cut_at_repeat": False},
    "passes": {"disable_passes": ",".join(passes())},
}


def blamed(program: Program, difference: Difference) -> list[str]:
    def vanishes(changes) -> bool:
        return not alike(outcome(program, **changes), difference)

    found = [name for name, changes in CHANGES.items() if vanishes(changes)]
    if "passes" in found:
        singly = [name for name in passes() if vanishes({"disable_passes": name})]
        found = [f"pass {name}" for name in singly] + [
            f for f in found if f != "passes" or not singly
        ]
    return found
