"""Installs a wheel as a user would, beside each version of torch, and uses it.

python tools/check_wheel.py dist/torch_lazuli-*.whl 2.11.0 2.15.0

For each version: a new environment in a folder with a space in its name, no compiler and no LLVM on
the path; the wheel, the demo (demo/compare.py), the tour (tests/package/tour.py), and what is left
after it was uninstalled. With the last version also: without a home, with one that cannot be
written, as another user, in a process that forks at once, and without autoload. Prints a table.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOBODY = 65534


class Failed(Exception):
    """A check did not do what it should; the text says what it printed."""


class Skipped(Exception):
    """A check cannot be made on this machine; the text says why."""


class Environment:
    """A virtual environment with torch and the wheel, and how to run things in it."""

    def __init__(self, folder: Path, version: str, wheel: Path, base: Path):
        self.folder, self.version, self.wheel, self.base = folder, version, wheel, base
        self.python = folder / "bin" / "python"
        self.home = folder / "home"

    def run(self, *command: str | Path, env: dict[str, str] | None = None, **options) -> str:
        """What a command prints, run with nothing on the path but the environment."""
        environment = {"PATH": str(self.python.parent), "HOME": str(self.home)} | (env or {})
        done = subprocess.run(
            [self.python, *command],
            env={name: value for name, value in environment.items() if value},
            cwd=options.pop("cwd", self.home),
            capture_output=True,
            text=True,
            check=False,
            **options,
        )
        if done.returncode != 0:
            raise Failed((done.stdout + done.stderr)[-2000:])
        return done.stdout

    def pip(self, *arguments: str | Path) -> None:
        # pip's own settings (certificates, mirrors) are in the caller's environment.
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        pip["PIP_CONSTRAINT"] = str(ROOT / "requirements" / "torch" / f"{self.version}.txt")
        self.run("-m", "pip", "-q", "--disable-pip-version-check", *arguments, env=pip)

    def packages(self) -> set[str]:
        """Every file of the environment that names the plugin."""
        site = next(self.folder.glob("lib/python3*/site-packages"))
        return {str(path.relative_to(site)) for path in site.rglob("*lazuli*")}


def make(e: Environment) -> None:
    subprocess.run([e.base, "-m", "venv", e.folder], check=True)
    e.home.mkdir()
    e.pip("install", e.wheel)


def tour(e: Environment, **options) -> None:
    e.run(shutil.copy(ROOT / "tests" / "package" / "tour.py", e.folder), **options)


def demo(e: Environment) -> None:
    packages = (ROOT / "requirements" / "demo.txt").read_text().splitlines()
    packages = [line for line in packages if line and not line.startswith("#")]
    try:
        e.pip("install", *packages)
    except Failed:  # some of these versions are not for an older Python
        e.pip("install", *(package.partition("==")[0] for package in packages))
    e.pip("install", "--no-deps", "-r", ROOT / "requirements" / "alone.txt")
    e.run(ROOT / "demo" / "compare.py")


def without_home(e: Environment) -> None:
    tour(e, env={"HOME": ""}, cwd="/")


def another_user_with_a_home_that_cannot_be_written(e: Environment) -> None:
    try:
        tour(e, env={"HOME": "/"}, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[])
    except PermissionError as error:
        raise Skipped(f"another user may not run {e.base.resolve()}; --python names one") from error


def fork_at_once(e: Environment) -> None:
    tour(e, env={"LAZULI_TOUR": "fork first"})


def without_autoload(e: Environment) -> None:
    code = "import torch; print(hasattr(torch, 'lazuli'), torch.ones(2).sum().item())"
    if (said := e.run("-c", code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})) != "False 2.0\n":
        raise Failed(said)


def uninstall(e: Environment) -> None:
    e.pip("uninstall", "-y", "torch-lazuli")
    if left := e.packages():
        raise Failed(f"left behind: {sorted(left)}")
    if (said := e.run("-c", "import torch; print(hasattr(torch, 'lazuli'))")) != "False\n":
        raise Failed(said)


EACH = [tour, demo]
LAST = [
    without_home,
    another_user_with_a_home_that_cannot_be_written,
    fork_at_once,
    without_autoload,
]


def check(e: Environment, checks: list[Callable[[Environment], None]]) -> dict[str, str]:
    """What became of each check, by its name."""
    results = {}
    for one in [make, *checks, uninstall]:
        name = one.__name__.replace("_", " ")
        start = time.perf_counter()
        try:
            one(e)
            results[name] = f"ok, {time.perf_counter() - start:.0f} s"
        except Skipped as error:
            results[name] = f"skipped: {error}"
        except (Failed, subprocess.CalledProcessError) as error:
            results[name] = "FAILED"
            print(f"[check_wheel] torch {e.version}: {name}:\n{error}", file=sys.stderr, flush=True)
            if one is make:
                break
    return results


def about(python: Path, wheel: Path) -> str:
    version = "import platform; print(platform.python_version())"
    said = subprocess.run([python, "-c", version], stdout=subprocess.PIPE, text=True, check=True)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]
    return f"== Python {said.stdout.strip()}, {wheel.name} of SHA-256 {digest}..."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="of torch, such as 2.11.0")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="to check with")
    arguments = parser.parse_args()
    print(about(arguments.python, arguments.wheel), flush=True)
    failed = 0
    for version in arguments.versions:
        checks = EACH + (LAST if version == arguments.versions[-1] else [])
        with tempfile.TemporaryDirectory(prefix="lazuli wheel ") as folder:
            os.chmod(folder, 0o755)  # another user looks in
            e = Environment(
                Path(folder) / "an environment",
                version,
                arguments.wheel.resolve(),
                arguments.python,
            )
            results = check(e, checks)
            shutil.rmtree(e.folder, ignore_errors=True)
        for name, result in results.items():
            print(f"torch {version:8} {name:48} {result}", flush=True)
        failed += sum(result == "FAILED" for result in results.values())
    raise SystemExit(1 if failed else 0)


main()
