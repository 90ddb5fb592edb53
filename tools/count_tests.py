"""Adds up the reports of tools/test or tools/test_gpu; the last line is `N passed, N failed`.

A runner that died without a report, or failed for another reason than a test, counts as one
failure.
"""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

PYTEST_NO_TESTS = 5


def status(path: Path) -> int:
    return int(path.read_text()) if path.exists() else 0


def count_googletest(reports: Path, name: str) -> tuple[int, int]:
    report, failed = reports / f"{name}.json", status(reports / f"{name}.status")
    if not report.exists():
        return 0, int(failed != 0)
    totals = json.loads(report.read_text())
    failures = totals["failures"] + totals.get("errors", 0)
    cases = [case for suite in totals["testsuites"] for case in suite["testsuite"]]
    skipped = sum(case.get("result") in ("SKIPPED", "SUPPRESSED") for case in cases)
    return totals["tests"] - failures - skipped, failures


def count_python(reports: Path, name: str) -> tuple[int, int]:
    report, code = reports / f"{name}.xml", status(reports / f"{name}.status")
    passed = failed = 0
    if report.exists():
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            failed += bad
            passed += int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
    if code not in (0, PYTEST_NO_TESTS) and failed == 0:
        failed = 1
    return passed, failed


def count_includes(reports: Path) -> tuple[int, int]:
    report = reports / "includes.status"
    if not report.exists():
        return 0, 0
    failed = int(status(report) != 0)
    return 1 - failed, failed


def count_kernels(reports: Path) -> tuple[int, int]:
    """All kernels that were linked for GPUs are one test; each that was not has failed."""
    report = reports / "kernels.report"
    if not report.exists():
        return 0, int(status(reports / "kernels.status") != 0)
    linked, failed = map(int, report.read_text().split())
    return int(linked > 0 and failed == 0), failed


def main() -> int:
    reports = Path(sys.argv[1])
    counts = [
        *(count_googletest(reports, name) for name in ("core", "gpu", "products")),
        count_includes(reports),
        *(count_python(reports, name) for name in ("python", "libraries")),
        count_kernels(reports),
    ]
    passed, failed = (sum(column) for column in zip(*counts, strict=True))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
