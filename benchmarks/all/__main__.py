"""Renews all that benchmarks/results keeps for a device, at one commit.

It begins only on a clean tree, and a result takes the old one's place only when it is whole and the
tree is as it was. What fails leaves the old result, and the status is 1. With --folder results go
elsewhere, from any tree; each says whether the tree was clean.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import revision
from benchmarks.all.stored import STORED


def command(name: str, device: str, file: Path, rounds: int | None) -> list[str]:
    """What measures the stored result `name` into `file`."""
    benchmark, *options = STORED[device][name].split()
    if rounds:
        options += ["--rounds", str(rounds)]
    return [
        *(sys.executable, "-m", f"benchmarks.{benchmark}", *options),
        *("--device", device, "--json", str(file)),
    ]


def renew(name: str, arguments: argparse.Namespace, began: dict[str, object]) -> str | None:
    """Measures one result and stores it; returns why it did not."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{name}.json")
        run = command(name, arguments.device, file, arguments.rounds)
        status = subprocess.run(run, cwd=revision.ROOT, check=False).returncode
        if status:
            return f"exit status {status}"
        text = file.read_text()
    if stores(arguments.folder) and json.loads(text)["revision"] != began | {"clean": True}:
        return "the tree changed meanwhile"
    Path(arguments.folder, f"{name}.json").write_text(text)
    return None


def stores(folder: str) -> bool:
    return Path(folder).resolve() == revision.RESULTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench all", description=__doc__)
    names = [name for results in STORED.values() for name in results]
    parser.add_argument("--device", choices=list(STORED), default="cpu")
    parser.add_argument("--only", nargs="+", choices=names, help="some of the results")
    parser.add_argument("--folder", default=str(revision.RESULTS), help="where results go")
    parser.add_argument("--rounds", type=int, help="few, to see whether everything works")
    arguments = parser.parse_args()
    chosen = arguments.only or list(STORED[arguments.device])
    if strange := [name for name in chosen if name not in STORED[arguments.device]]:
        sys.exit(f"{', '.join(strange)}: not measured with --device {arguments.device}")
    if stores(arguments.folder):
        revision.refuse_unclean(Path(arguments.folder, "any.json"))
        if arguments.rounds:
            sys.exit("--rounds is for trying: name another --folder")
    Path(arguments.folder).mkdir(parents=True, exist_ok=True)
    began = revision.facts()
    failed = {}
    for number, name in enumerate(chosen, 1):
        print(f"[all] {name} ({number} of {len(chosen)})", flush=True)
        if why := renew(name, arguments, began):
            failed[name] = why
            print(f"[all] {name} is not stored: {why}", flush=True)
    print(f"[all] {len(chosen) - len(failed)} stored in {arguments.folder}, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
