"""What may catch a fault, cheapest first, and of each suite the tests of its theme first."""

from dataclasses import dataclass
from pathlib import Path

import tomllib

from mutation.faults import Fault

NAMES = ("core", "python", "sample", "fuzz")
PROGRAMS = 5000
CORE = ("ir", "lowering", "jit")  # what the core tests link

# What tools/test gives to pytest, but for the program generator and what needs a GPU.
FOLDERS = (
    "lazy",
    "backend",
    "models",
    "error",
    "ops",
    "package",
    "distributed",
    "tools",
    "conformance",
)

THEMES = tomllib.loads(Path(__file__).with_name("themes.toml").read_text())


@dataclass(frozen=True)
class Part:
    """A program that passes while no fault is on."""

    suite: str
    name: str
    command: tuple[str, ...]
    threads: int = 1
    is_rest: bool = False  # of a suite of which the likely tests have gone before


def parts_of(
    fault: Fault, suites: tuple[str, ...], folder: Path, likely_only: bool = False
) -> list[Part]:
    theme, likely = fault.theme, THEMES[fault.theme]
    in_core = fault.file.split("/")[0] in CORE
    made = {
        "core": lambda: core_parts(theme, likely["core"]) if in_core else [],
        "python": lambda: python_parts(theme, likely["python"]),
        "sample": lambda: [Part("sample", "sample", pytest("tests/fuzz/test_fuzz.py"))],
        "fuzz": lambda: [Part("fuzz", "programs", programs(folder))],
    }
    parts = [part for name in NAMES if name in suites for part in made[name]()]
    return [part for part in parts if not (likely_only and part.is_rest)]


def core_parts(theme: str, tests: str) -> list[Part]:
    def core(name: str, wanted: str, rest: bool) -> Part:
        program = "build/release/lazuli_core_tests"
        command = (program, "--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={wanted}")
        return Part("core", name, command, 2, rest)

    rest = f"*-{tests}"
    return [core(f"core: {theme}", tests, False), core(f"core: beside {theme}", rest, True)]


def python_parts(theme: str, files: list[str]) -> list[Part]:
    likely = [f"tests/{name}" for name in files]
    rest = [f"tests/{name}" for name in FOLDERS if name not in files]
    ignored = [f"--ignore={name}" for name in likely if name.endswith(".py")]
    return [
        Part("python", f"python: {theme}", pytest(*likely)),
        Part("python", f"python: beside {theme}", pytest(*rest, *ignored), is_rest=True),
    ]


def pytest(*arguments: str) -> tuple[str, ...]:
    return (".venv/bin/python", "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:xdist", *arguments)


def programs(folder: Path) -> tuple[str, ...]:
    # Our kernels from the first time on; what comes before them the sample has.
    options = ("--programs", str(PROGRAMS), "--shrink", "0", "--setting", "planned at once")
    options += ("--folder", str(folder))
    return (".venv/bin/python", "-m", "fuzz", *options)
