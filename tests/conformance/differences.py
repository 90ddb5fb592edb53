"""The list of what differs from cpu: `differences/<suite>.txt`, a line each with its reason.

A line is `operator/aspect/dtype | reason`; each part may be several with commas between,
and `*` stands for any. Whatever a line names must differ, so that the list cannot rot; only what
a library sums in an order of its own for each kind of CPU, or what rounds otherwise when nothing is
fused, or what reads memory that nobody has written, or what other versions of torch do in another
way need not, and its reason says so first.

A reason that begins with "since torch 2.15, " or "before torch 2.13, " is only for these versions.
"""

import fnmatch
import itertools
import re
from importlib.metadata import version
from pathlib import Path

VARIES = ("on some CPUs, ", "under some settings, ", "by chance, ", "with some torches, ")
LISTS = Path(__file__).with_name("differences")


def numbers(torch: str) -> tuple[int, ...]:
    return tuple(int(number) for number in torch.split(".")[:2])


def reason_with(torch: str, reason: str) -> str | None:
    """The reason as it is for this version; None for a line that is for others."""
    bound = re.match(r"(since|before) torch (\d+\.\d+), ", reason)
    if not bound:
        return reason
    since = numbers(torch) >= numbers(bound[2])
    return reason[bound.end() :] if since == (bound[1] == "since") else None


def patterns(suite: str) -> dict[str, str]:
    found = {}
    for line in (LISTS / f"{suite}.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        names, reason = line.split(" | ", 1)
        if (reason := reason_with(version("torch"), reason)) is None:
            continue
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
