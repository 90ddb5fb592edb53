"""The list of programs: programs.toml, read and checked."""

import dataclasses
import re
from pathlib import Path

import tomllib

LIST = Path(__file__).with_name("programs.toml")
SAME, KIND = "same", "kind"


class ListError(ValueError):
    """An entry of the list that says what it must not, or not what it must."""


@dataclasses.dataclass(frozen=True)
class Program:
    """One program of a package's source distribution, and how it is run.

    It runs in an empty folder. `path` is that of its file in the distribution; with `module` it is
    run as the module of that path, which is installed. `on_path` is a folder of the distribution
    that is put on Python's path, for packages that are not installed ("." is all of it). `beside`
    puts data into the folder first: which set of data.py goes into which folder. `compare` says
    what must agree: numbers within `tolerance` of each other, or with KIND only the words around
    them (`why` says why). What matches a pattern of `ignore` is not compared.
    """

    package: str
    version: str
    path: str
    field: str
    arguments: tuple[str, ...] = ()
    module: bool = False
    on_path: str = ""
    options: tuple[str, ...] = ()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    beside: dict[str, str] = dataclasses.field(default_factory=dict)
    answers: str = ""
    compare: str = SAME
    why: str = ""
    tolerance: float = 0.01
    ignore: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How the table calls it: the package, and the path within it."""
        return f"{self.package}/{self.path}"

    def command(self, sources: Path) -> list[str]:
        """What Python is given: the file or module, and its arguments."""
        if self.module:
            return ["-m", self.path.removesuffix(".py").replace("/", "."), *self.arguments]
        file = str(sources / self.path)
        if self.path.endswith(".ipynb"):
            return ["-m", "IPython", "--colors=NoColor", file, *self.arguments]
        return [file, *self.arguments]


def programs(text: str | None = None) -> list[Program]:
    """All of them, in the order of the list.

    Raises ListError for unknown keys, patterns that are none, a comparison that is none, one by
    kind without a reason, and a program that is listed twice.
    """
    listed = tomllib.loads(LIST.read_text() if text is None else text)
    found = [
        _program(package, about, entry)
        for package, about in listed.items()
        for entry in about["programs"]
    ]
    names = [program.name for program in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ListError(f"listed twice: {', '.join(sorted(twice))}")
    return found


def _program(package: str, about: dict, entry: dict) -> Program:
    shared = {key: value for key, value in about.items() if key != "programs"}
    merged = shared | entry
    for key, value in merged.items():
        if isinstance(value, list):
            merged[key] = tuple(value)
    try:
        program = Program(package=package, **merged)
    except TypeError as error:
        raise ListError(f"{package}: {error}") from error
    if program.compare not in (SAME, KIND):
        raise ListError(f"{program.name}: compare is {program.compare!r}")
    if (program.compare == KIND) != bool(program.why):
        raise ListError(f"{program.name}: compared by kind, it says why; else it does not")
    for pattern in program.ignore:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ListError(f"{program.name}: {pattern!r}: {error}") from error
    return program
