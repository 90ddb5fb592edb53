"""Which sources a result was measured with, and whether it may be stored."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def _git(*arguments: str, root: Path) -> str | None:
    """What git says; None where it fails, as it does outside of a checkout."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if Path(file).is_file() else "none"


def changes(root: Path = ROOT) -> list[str]:
    """What differs from the commit, but for the results themselves."""
    where = [".", f":!{RESULTS.relative_to(ROOT)}"]
    listed = _git("status", "--porcelain", "--", *where, root=root)
    return ["this is no checkout"] if listed is None else listed.splitlines()


def facts(root: Path = ROOT) -> dict[str, object]:
    """The commit, whether the tree was clean, and which library was loaded."""
    library = os.environ.get("LAZULI_LIBRARY")
    return {
        "commit": _git("rev-parse", "HEAD", root=root) or "unknown",
        "clean": not changes(root),
        "library": f"given, SHA-256 {_digest(library)}" if library else "built from this tree",
    }


def since(began: dict[str, object], root: Path = ROOT) -> dict[str, object]:
    """The facts of when measuring began: clean only if all is still as it was."""
    return began | {"clean": bool(began) and began["clean"] and facts(root) == began}


def refuse_unclean(file: str | Path | None, root: Path = ROOT) -> None:
    """Exits where `file` is among the stored results and the tree is not clean."""
    if file is None or not Path(file).resolve().is_relative_to(RESULTS):
        return
    if found := changes(root):
        sys.exit(
            "the tree is not clean, so results are not stored in benchmarks/results:\n"
            + "\n".join(f"  {line}" for line in found)
        )
