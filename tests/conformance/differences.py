"""The list of what differs from cpu: `differences/<suite>.txt`, a line each with its reason.

A line is `operator/aspect/dtype | reason`; each part may be several with commas between,
and `*` stands for any. Whatever a line names must differ, so that the list cannot rot; only what
a library sums in an order of its own for each kind of CPU, or what rounds otherwise when nothing is
fused, or what reads memory that nobody has written, or what other versions of torch do in another
way need not, and its reason says so first.
"""

import fnmatch
import itertools
from pathlib import Path

VARIES = ("on some CPUs, ", "under some settings, ", "by chance, ", "with some torches, ")
LISTS = Path(__file__).with_name("differences")


def patterns(suite: str) -> dict[str, str]:
    found = {}
    for line in (LISTS / f"{suite}.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        names, reason = line.split(" | ", 1)
        parts = [part.split(",") for part in names.split("/")]
        for one in itertools.product(*parts):
            found["/".join(one)] = reason
    return found


def must_differ(reason: str) -> bool:
    return not reason.startswith(VARIES)


def listed(suite: str, names, whole: bool = True) -> dict[str, str]:
    """Which of the names are listed, with the reason.

    A line that names none is an error, if these are the names of the whole suite.
    """
    found = {}
    for pattern, reason in patterns(suite).items():
        matched = fnmatch.filter(names, pattern.replace("[", "[[]"))
        assert matched or not whole, f"{suite}.txt names {pattern}, and there is no such case"
        found.update(dict.fromkeys(matched, reason))
    return found
