"""The list of faults, and where in the sources each has its place."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import tomllib

LIST = Path(__file__).with_name("faults.toml")
OPEN, CLOSE = "«»"


class Misplaced(Exception):
    """The list no longer fits the sources."""


@dataclass(frozen=True)
class Fault:
    number: int
    theme: str
    file: str
    place: str  # as in the list, with its marks
    put: str
    breaks: str
    rebuild: bool = False

    @property
    def key(self) -> str:
        """Names the fault whatever its number becomes."""
        return sha256("\0".join((self.file, self.place, self.put)).encode()).hexdigest()[:12]

    @property
    def code(self) -> int:
        """Stands for it in the copy, which is not built anew because others come and go."""
        return int(self.key[:7], 16)

    @property
    def original(self) -> str:
        return self.place[self.place.index(OPEN) + 1 : self.place.index(CLOSE)]

    @property
    def is_statement(self) -> bool:
        return self.original.endswith(";")

    def find(self, text: str) -> tuple[int, int]:
        """Where the original begins and ends in the text of its file."""
        if self.place.count(OPEN) != 1 or self.place.count(CLOSE) != 1:
            raise Misplaced(f"{self}: its place marks no part, or several")
        plain = self.place.replace(OPEN, "").replace(CLOSE, "")
        if (count := text.count(plain)) != 1:
            raise Misplaced(f"{self}: its place stands {count} times in the file: {plain!r}")
        begin = text.index(plain) + self.place.index(OPEN)
        return begin, begin + len(self.original)

    def __str__(self):
        return f"fault {self.number} ({self.theme}, {self.file}): {self.breaks}"


def load(path: Path = LIST) -> list[Fault]:
    rows = tomllib.loads(path.read_text())["fault"]
    return [Fault(number, **row) for number, row in enumerate(rows, 1)]


def misplaced(faults: list[Fault], root: Path) -> list[str]:
    """What is wrong with the list, a line for each fault."""
    wrong, taken = [], []
    for fault in faults:
        try:
            begin, end = fault.find((root / fault.file).read_text())
        except (Misplaced, OSError) as error:
            wrong.append(str(error))
            continue
        for other, file, first, last in taken:
            if file == fault.file and begin < last and first < end:
                wrong.append(f"{fault}: overlaps the place of {other}")
        if not fault.rebuild:
            taken.append((fault.number, fault.file, begin, end))
    return wrong
