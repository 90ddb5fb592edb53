"""Compares what a program prints with the launcher and without it."""

import math
import re

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w])|\b(?:nan|inf)\b")
_SMALL = 1e-5  # differences are relative to this at least
# What no two runs of one program agree on: durations and rates, addresses; and lines about time.
_VARYING = re.compile(
    r"\d+:\d\d(?::\d\d)?\b|0x[0-9a-f]{6,}"
    r"|\d[\d:.]*(?:e[-+]\d+)?\s?(?:s|ms|us|[µμ]s|ns|min|sec|secs|seconds|minutes|it/s|s/it|samples/s)\b"
)
_ABOUT_TIME = re.compile(
    r"(?i)\b(?:time|took|elapsed|sps|fps|speed|eta|duration|throughput)\b"
    r"|\d{4}-\d\d-\d\d"
)


def lines(text: str, ignore: tuple[str, ...] = ()) -> list[str]:
    """The lines that are compared, without what varies and what matches a pattern of `ignore`.
    Progress bars draw themselves again on one line: the last state counts."""
    kept = []
    for line in text.split("\n"):
        line = line.rstrip("\r").rpartition("\r")[2]
        for pattern in ignore:
            line = re.sub(pattern, "", line)
        line = _VARYING.sub("", line).strip()
        if line and not _ABOUT_TIME.search(line):
            kept.append(line)
    return kept


def words(line: str) -> str:
    """A line without its numbers; how they are aligned is no matter."""
    return "".join(NUMBER.sub("#", line).split())


def numbers(line: str) -> list[str]:
    return NUMBER.findall(line)


def difference(expected: list[str], actual: list[str]) -> float:
    """The largest difference of two numbers, relative to the larger one (and to 1e-5 at
    least); inf if words differ.

    Numbers that differ by one in the last digit that is printed count as equal.
    """
    if [words(line) for line in expected] != [words(line) for line in actual]:
        return math.inf
    pairs = zip(expected, actual, strict=True)
    return max(
        (_apart(a, b) for x, y in pairs for a, b in zip(numbers(x), numbers(y), strict=True)),
        default=0.0,
    )


def _apart(a: str, b: str) -> float:
    x, y = float(a), float(b)
    if x == y or (math.isnan(x) and math.isnan(y)):
        return 0.0
    if not math.isfinite(x - y):
        return math.inf
    apart = abs(x - y)
    if apart <= 1.001 * min(_last_digit(a), _last_digit(b)):
        return 0.0
    return apart / max(abs(x), abs(y), _SMALL)


def _last_digit(number: str) -> float:
    """What one in the last digit of a fraction is worth; an integer is exact."""
    digits, _, exponent = number.lower().partition("e")
    places = len(digits.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - places) if "." in digits else 0.0


def of_one_kind(expected: list[str], actual: list[str]) -> bool:
    """Whether both say the same sorts of things: each line of one has its words in the other."""
    left, right = ({words(line) for line in said} for said in (expected, actual))
    return left == right


def first_difference(expected: list[str], actual: list[str], tolerance: float) -> str:
    """The first pair of lines that differ; empty if there is none."""
    for left, right in zip(expected, actual, strict=False):
        if difference([left], [right]) > tolerance:
            return f"- {left}\n+ {right}"
    if len(expected) != len(actual):
        longer = expected if len(expected) > len(actual) else actual
        sign = "-" if longer is expected else "+"
        return f"{sign} {longer[min(len(expected), len(actual))]}"
    return ""
