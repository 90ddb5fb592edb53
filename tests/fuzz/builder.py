"""A program that grows: each statement runs on eager as it is added, so shapes are known."""

import random
import warnings

import torch

from fuzz.execute import Running
from fuzz.program import Program
from fuzz.scope import EAGER

LARGEST = 2000  # elements of a variable
KEPT_ERRORS = 0.15


class Builder:
    def __init__(self, rng: random.Random, alone=True, largest=LARGEST):
        self.rng = rng
        self.running = Running(Program(()), EAGER, 0)
        self.statements: list[str] = []
        self.producer: dict[str, str] = {}  # of each variable
        self.pairs: dict[tuple[str, str], int] = {}  # producer and consumer, and in which statement
        self.count = 0
        self.alone = alone
        self.largest = largest
        self.wants_grad = rng.random() < 0.5
        self.errors = 0

    @property
    def namespace(self) -> dict:
        return self.running.namespace

    # ---- Variables

    def tensors(self, accept=None) -> list[str]:
        return [
            name
            for name, x in self.namespace.items()
            if isinstance(x, torch.Tensor)
            and name[0] == "v"
            and name not in self.running.brought
            and x.layout is torch.strided
            and (accept is None or accept(x))
        ]

    def get(self, name: str) -> torch.Tensor:
        return self.namespace[name]

    def pick(self, accept=None) -> str | None:
        """One of them, of the later ones rather."""
        found = self.tensors(accept)
        if not found:
            return None
        if self.rng.random() < 0.5:
            found = found[-4:]
        return self.rng.choice(found)

    def name(self, letter="v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # ---- Statements

    def ask(self, expression: str):
        """What an expression gives on eager now; an exception where it raises."""
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                return eval(expression, dict(self.namespace))
        except Exception as error:  # whatever it is, the caller goes another way
            return error

    def run(self, text: str) -> Exception | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(text, self.namespace)
        except Exception as error:  # programs may raise
            return error
        return None

    def add(self, text: str) -> bool:
        """Adds a statement that works; one that raises is kept now and then."""
        error = self.run(text)
        if error is None:
            self.statements.append(text)
        elif self.rng.random() < KEPT_ERRORS and self.errors < 2 and is_comparable(error):
            self.errors += 1
            self.statements.append(text)
        return error is None

    def bind(self, expression: str, operator: str, letter="v") -> list[str]:
        """`v = expression`, or as many variables as the result has parts; their names."""
        first = self.name(letter)
        error = self.run(f"{first} = {expression}")
        if error is not None:
            self.namespace.pop(first, None)
            if self.rng.random() < KEPT_ERRORS and self.errors < 2 and is_comparable(error):
                self.errors += 1
                self.statements.append(f"{first} = {expression}")
            return []
        value = self.namespace[first]
        parts = value if isinstance(value, tuple | list) else None
        if any(
            x.numel() > self.largest or x.layout is not torch.strided for x in tensors_in(value)
        ):
            del self.namespace[first]
            return []
        names = [first]
        left = first
        if parts is not None and 0 < len(parts) <= 6 and tensors_in(parts):
            del self.namespace[first]
            names = [self.name(letter) for _ in parts]
            self.namespace.update(zip(names, parts, strict=True))
            left = ", ".join(names) + "," * (len(names) == 1)
        self.statements.append(f"{left} = {expression}")
        for name in names:
            self.producer[name] = operator
        return names

    def write(self, text: str, target: str, operator: str) -> bool:
        """A statement that changes a variable."""
        done = self.add(text)
        if done:
            self.producer[target] = operator
        return done

    def drop(self, name: str):
        self.add(f"del {name}")
        self.namespace.pop(name, None)

    def producers(self, names) -> list[str]:
        return [self.producer[name] for name in names if name in self.producer]

    def met(self, producers: list[str], operator: str):
        """Notes that the last statement's operator took what these have made."""
        for producer in producers:
            self.pairs.setdefault((producer, operator), len(self.statements) - 1)


def tensors_in(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for one in value for t in tensors_in(one)] if isinstance(value, tuple | list) else []


def is_comparable(error: Exception) -> bool:
    """Messages that say what lies in memory differ from run to run."""
    text = str(error)
    return (
        not isinstance(error, SyntaxError | NameError | MemoryError)
        and "INTERNAL ASSERT" not in text
    )
