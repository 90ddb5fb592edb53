"""Runs programs that packages ship, with and without the launcher: see tools/tutorials --help."""

import argparse
import fnmatch
import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import results
import running
from listing import programs
from sources import fetch

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lazuli" / "tutorials"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/tutorials", description=__doc__)
    parser.add_argument(
        "-k", "--only", nargs="+", default=["*"], help="programs of these patterns: 'gpytorch/*'"
    )
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time; 1")
    parser.add_argument("--work", type=Path, help="keeps what each run printed and wrote, there")
    parser.add_argument(
        "--results",
        type=Path,
        help="keeps the outcomes in this folder, with a page that has all that are known",
    )
    parser.add_argument("--list", action="store_true", help="only prints the programs' names")
    return parser.parse_args()


def main() -> int:
    """0 if every program that was run ran as without the launcher."""
    options = parsed()
    chosen = [p for p in programs() if any(fnmatch.fnmatch(p.name, k) for k in options.only)]
    if options.list:
        print("\n".join(program.name for program in chosen))
        return 0
    sources = {
        package: fetch(package, version, CACHE)
        for package, version in {(program.package, program.version): None for program in chosen}
    }
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).resolve()

        def one(program):
            result = running.outcome(program, sources[program.package], work / program.name)
            print(_line(program, result), flush=True)
            if options.results:
                results.add(options.results, {program.name: result}, programs())
            return result

        with ThreadPoolExecutor(options.jobs) as pool:
            found = dict(zip((p.name for p in chosen), pool.map(one, chosen), strict=True))
    counts = Counter(result.verdict for result in found.values())
    print(", ".join(f"{counts[v]} {v}" for v in running.VERDICTS if counts[v]))
    return 0 if all(result.verdict in running.GOOD for result in found.values()) else 1


def _line(program, result) -> str:
    launched = f"{result.launched.seconds:4.0f} s" if result.launched else ""
    detail = result.detail.replace("\n", "  ")
    return f"{result.verdict:8} {result.plain.seconds:4.0f} s {launched:6} {program.name}  {detail}"


if __name__ == "__main__":
    sys.exit(main())
