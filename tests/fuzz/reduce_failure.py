"""Shrinks saved programs and says without what they pass.

`python -m fuzz.reduce_failure SECONDS FILE...` prints a line of JSON for each. It is a process of
its own, which runs under the settings under which they failed.
"""

import json
import sys
from pathlib import Path

import fuzz.catalog  # noqa: F401  before any fork
from fuzz import script
from fuzz.blame import blamed
from fuzz.program import load
from fuzz.same_way import alike, outcome
from fuzz.shrink import Shrinker


def reduced(text: str, seconds: float) -> dict:
    program = load(text)
    difference = outcome(program)
    if difference is None:
        return {"reproduced": False}
    small = Shrinker(lambda one: alike(outcome(one), difference), seconds).shrink(program)
    difference = outcome(small) or difference
    vanishes = blamed(small, difference)
    return {
        "reproduced": True,
        "signature": difference.signature,
        "difference": str(difference),
        "vanishes": vanishes,
        "statements": list(small.statements),
        "script": script.script(small, difference, vanishes),
    }


if __name__ == "__main__":
    for file in sys.argv[2:]:
        print(json.dumps(reduced(Path(file).read_text(), float(sys.argv[1]))), flush=True)
