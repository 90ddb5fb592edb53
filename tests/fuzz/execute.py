"""Runs a program on one side, statement by statement, and records what a user sees."""

import dataclasses
import re
import warnings
import weakref

import torch

from fuzz import observe
from fuzz.program import VARIABLE, Program, assigned, compiled, grown
from fuzz.scope import Side, scope


@dataclasses.dataclass(frozen=True)
class Raised:
    """An exception as a result. `late`: lazuli gave it when a trace ran, at its end or before."""

    kind: str
    message: str
    late: bool = False

    def __str__(self):
        return f"{self.kind}: {self.message}" + (" (late)" if self.late else "")


@dataclasses.dataclass
class Record:
    """Everything by where it was seen: (turn, statement), and a variable's path."""

    errors: dict = dataclasses.field(default_factory=dict)
    geometry: dict = dataclasses.field(default_factory=dict)
    aliases: dict = dataclasses.field(default_factory=dict)
    values: dict = dataclasses.field(default_factory=dict)


def on_any_device(text: str) -> str:
    """A message without the device's name, and without what torch appends of its C++ frames.

    A number that is written into a tensor of the CPU fills it, and into others is copied.
    """
    text = text.split("\nException raised from")[0].split("C++ CapturedTraceback:")[0]
    text = re.sub(r"lazuli:0|cuda:0|lazuli|cuda|cpu|CPU", "<device>", text)
    text = text.replace(", device='<device>'", "")
    text = re.sub(r"<device>(\w+)Type", r"torch.\1Tensor", text)
    text = re.sub(r"(_scaled_dot_product)_\w+?(_for_<device>|_overrideable)", r"\1", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "<address>", text).replace("-nan", "nan")
    text = re.sub(r"(diagonal element|minor of order) \d+", r"\1 <number>", text)
    text = re.sub(r"FillBackward\d|torch::autograd::CopyBackwards", "<number written>", text)
    return text.strip()


OF_A_TRACE = re.compile(r"\w+ \(<statement \d+>:\d+\): ")


def raised(error: BaseException, late=False) -> Raised:
    message = on_any_device(str(error))
    return Raised(type(error).__name__, message, late or OF_A_TRACE.match(message) is not None)


def is_leaf(x) -> bool:
    try:
        return isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf
    except RuntimeError:  # a view across no_grad
        return False


class Running:
    """A program on its way: the variables of one turn."""

    def __init__(self, program: Program, side: Side, turn: int):
        self.program, self.side, self.turn = program, side, turn
        self.namespace = scope(side, turn)
        self.brought = {*self.namespace, "__builtins__"}
        self.has_cycles = "create_graph" in str(program)
        self.leaves = weakref.WeakValueDictionary()  # those that there ever were, if it has

    def names(self) -> set[str]:
        return {name for name in set(self.namespace) - self.brought if VARIABLE.fullmatch(name)}

    def step(self, i: int, statement: str, expected: dict, record: Record):
        """`expected`: eager's errors, on lazuli; what only numbers show is asked for at once."""
        where = (self.turn, i)
        before = {name: self.namespace.get(name) for name in assigned(statement)}
        try:
            text = grown(statement, self.turn) if self.program.grows else statement
            exec(compiled(text, i), self.namespace)
        except Exception as error:  # any class: it is compared
            record.errors[where] = raised(error)
        if self.has_cycles:
            self.leaves.update({id(x): x for x in self.namespace.values() if is_leaf(x)})
        if where in expected and where not in record.errors:
            try:
                torch.lazuli.synchronize()
            except Exception as error:
                record.errors[where] = raised(error, late=True)
                self.namespace.update(before)  # as if it had been raised in time
                for name in [name for name, old in before.items() if old is None]:
                    del self.namespace[name]

    def end(self):
        """Opens the cycles that no garbage collector sees, or eager would leak, too.

        They lead through C++: from a gradient that has a graph (create_graph=True) to its leaf,
        from a checkpoint to the variables of its function, from a hook to the list it fills.
        """
        modules = [m for m in self.namespace.values() if isinstance(m, torch.nn.Module)]
        parameters = [p for m in modules for p in m.parameters()]
        for leaf in [*self.leaves.values(), *parameters]:
            leaf.grad = None
        for name in self.names():
            if isinstance(self.namespace[name], list):
                self.namespace[name].clear()
        self.namespace.clear()

    def look(self, i, record: Record, history=False):
        record.geometry[self.turn, i] = observe.geometries(self.namespace, self.names(), history)

    def read(self, record: Record):
        """Geometry first: it ends no trace. Then aliases, then all numbers."""
        end = len(self.program.statements)
        self.look(end, record, self.program.histories)
        record.aliases[self.turn, end] = observe.aliases(self.namespace, self.names())
        values = record.values[self.turn, end] = {}
        for where, one in observe.live(self.namespace, self.names()):
            try:
                values[where] = observe.value(one)
            except Exception as error:
                values[where] = raised(error)


def execute(program: Program, side: Side, expected: dict | None = None) -> Record:
    """Runs all turns. Nothing is read before a turn's end, for reads change what a trace is."""
    record, running = Record(), []
    with warnings.catch_warnings(), _default_type(side):
        warnings.simplefilter("ignore")
        for turn in range(program.turns):
            seed(side, turn)
            now = Running(program, side, turn)
            for i, statement in enumerate(program.statements):
                now.step(i, statement, expected or {}, record)
                if program.watched:
                    now.look(i, record)
            running.append(now)
            if not program.held:
                now.read(record)
                running.pop().end()
        for now in running:
            now.read(record)
        for now in running:
            now.end()
    return record


def seed(side: Side, number: int):
    """Only where it counts: torch.manual_seed visits every sort of device."""
    torch.default_generator.manual_seed(number)
    if side.device == "lazuli":
        torch.lazuli.manual_seed(number)


class _default_type:
    """The wide side computes in double precision what no statement gives a type."""

    def __init__(self, side: Side):
        self.wide = side.wide

    def __enter__(self):
        self.before = torch.get_default_dtype()
        if self.wide:
            torch.set_default_dtype(torch.float64)

    def __exit__(self, *_):
        torch.set_default_dtype(self.before)
