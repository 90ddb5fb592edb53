"""What differs by design: lines of differences.txt, each as narrow as can be."""

import functools
import re
from pathlib import Path

from fuzz.oracle import Difference
from fuzz.program import Program

FILE = Path(__file__).with_name("differences.txt")


@functools.cache
def lines() -> tuple[tuple[re.Pattern, re.Pattern, str], ...]:
    """A pattern of the difference, one of the program's text, and the reason."""
    rows = [line.split(" | ") for line in FILE.read_text().splitlines() if line and line[0] != "#"]
    return tuple((re.compile(a), re.compile(b), reason) for a, b, reason in rows)


def listed(program: Program, difference: Difference) -> str | None:
    """The reason why this difference is none."""
    for what, text, reason in lines():
        if what.search(str(difference)) and text.search(str(program)):
            return reason
    return None
