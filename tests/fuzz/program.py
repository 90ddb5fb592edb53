"""A program: statements of Python, each one text, which is what runs, shrinks and is printed."""

import dataclasses
import functools
import json
import re
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Program:
    statements: tuple[str, ...]
    name: str = ""
    turns: int = 1  # how often it runs in one process, each time with other numbers
    watched: bool = True  # geometry is looked at after each statement; else at the end of a turn
    held: bool = False  # values of all turns are read behind the last one
    histories: bool = False  # grad_fn is looked at: to ask for it makes nodes
    grows: bool = False  # sizes are larger in each turn; what then is an error is one on both sides

    def replaced(self, **changes) -> "Program":
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        return "\n".join(self.statements)

    def save(self, file: Path):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")


def load(text: str) -> Program:
    fields = json.loads(text)
    return Program(**{**fields, "statements": tuple(fields["statements"])})


@functools.lru_cache(maxsize=4096)
def compiled(statement: str, number: int):
    return compile(statement, f"<statement {number}>", "exec")


SIZE = re.compile(r"(?<![\w.'])([3-9]|[1-9]\d)(?![\w.'])")


@functools.lru_cache(maxsize=4096)
def grown(statement: str, turn: int) -> str:
    """The statement with larger numbers; not those that are mostly dimensions."""
    return SIZE.sub(lambda found: str(int(found[0]) + turn), statement)


VARIABLE = re.compile(r"\b[a-z]\d+\b")
ASSIGNED = re.compile(r"^\s*((?:[a-z]\d+, ?)*[a-z]\d+,?) = ", re.MULTILINE)


def variables(statement: str) -> list[str]:
    """What it mentions."""
    return list(dict.fromkeys(VARIABLE.findall(statement)))


def assigned(statement: str) -> list[str]:
    """What it binds."""
    return [name for group in ASSIGNED.findall(statement) for name in VARIABLE.findall(group)]


OPERATOR = re.compile(r"OPERATORS\['([^']+)'\]|(?:torch|F|Tensor|[a-z]\d+|\))\.([A-Za-z_]\w*)\(")
PLUMBING = set(
    """
    Tensor no_grad enable_grad inference_mode func dual_level reshape to detach
    """.split()  # noqa: SIM905
)


def operators(statement: str) -> list[str]:
    """The operators that it calls, the outer ones first."""
    found = [a or b for a, b in OPERATOR.findall(statement)]
    return [name for name in dict.fromkeys(found) if name not in PLUMBING] or found[:1]
