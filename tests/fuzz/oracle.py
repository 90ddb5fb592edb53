"""Whether a program did on lazuli what it does on eager, and if not, the first thing that differs.

Errors have eager's class and message where eager raises; what only numbers show may come late,
when lazuli is asked to finish right after that statement, and then has eager's class, and what the
statement wrote in place may have no values. Geometry, aliases and numbers are equal; where they
are not, eager's runs with random rounding, in double precision and with operators that round but
once are asked (`rounding.py`, `careful.py`): what one of them has, geometry included, is no
difference, for a shape can depend on a rounded number, and so can an error. Under
LAZULI_KERNELS=eager nothing of that is asked: there every number is eager's, bit for bit. On a GPU
messages may be other than the CPU's, and what eager CUDA does is no difference.
"""

import dataclasses
import functools
import re

import rounding
import torch
from careful import Careful
from noise import Noise
from torch_lazuli.shadow import take_reports

from fuzz.execute import Raised, Record, execute
from fuzz.observe import GEOMETRY
from fuzz.program import Program, assigned, operators, variables
from fuzz.scope import EAGER, EAGER_ON_GPU, EXACT, LAZULI, NARROW, on_gpu

FEW, MANY, MOST = 6, 20, 50  # perturbed runs; the most before a program counts as failed


@dataclasses.dataclass(frozen=True)
class Difference:
    kind: str  # "value", "stride", "error missing", ...
    turn: int
    statement: int  # where it was seen
    path: str  # of which variable; empty for errors
    detail: str
    operator: str = ""  # what made or wrote the variable last
    is_choice: bool = False  # of integers or booleans, or of whether there is an error

    @property
    def signature(self) -> str:
        return f"{self.kind} after {self.operator}"

    def __str__(self):
        where = f"turn {self.turn}, statement {self.statement}"
        return f"{self.kind} after {self.operator} ({where}) {self.path}: {self.detail}"


class Arbiter:
    """Eager's perturbed runs and the wide one, made when somebody asks."""

    def __init__(self, program: Program, eager: Record, many: int):
        self.program, self.eager, self.many = program, eager, many
        self.perturbed: list[Record] = []
        self.is_undefined = False  # some number depends on what C++ leaves open

    def runs(self, count: int) -> list[Record]:
        while len(self.perturbed) < count:
            seed = len(self.perturbed)
            kind = {3: {"share": 0.1}, 4: {"units": 0}}.get(seed % 5, {})
            with Noise(seed, **kind) as noise:
                self.perturbed.append(execute(self.program, EAGER))
            self.is_undefined |= noise.is_undefined
        return self.perturbed[:count] + self.on_gpu

    @functools.cached_property
    def on_gpu(self) -> list[Record]:
        """Eager's on the GPU, if one backs lazuli, where kernels differ in ties and errors."""
        return [execute(self.program, EAGER_ON_GPU)] if on_gpu() else []

    @functools.cached_property
    def exact(self) -> Record:
        return execute(self.program, EXACT)

    @functools.cached_property
    def careful(self) -> Record:
        with Careful():
            return execute(self.program, EAGER)

    def anyone(self, has) -> bool:
        """Whether one of the runs that have the program's types has the property."""
        return (
            any(has(run) for run in self.runs(FEW))
            or has(self.careful)
            or any(has(run) for run in self.runs(self.many))
        )


def check(program: Program) -> Difference | None:
    eager = execute(program, EAGER)
    found = compare(program, eager, execute(program, LAZULI, expected=eager.errors))
    return found or seen_by_shadows()


def seen_by_shadows() -> Difference | None:
    """What Lazuli's own shadow runs report, under LAZULI_SHADOW=all LAZULI_SHADOW_ACTION=warn."""
    reports = take_reports() if torch.lazuli.config.shadow else []
    if not reports:
        return None
    first = reports[0]
    return Difference(f"shadow's {first.kind}", 0, 0, "", first.text, first.op)


def compare(program: Program, eager: Record, lazuli: Record, many: int = MANY) -> Difference | None:
    """The first difference in the order of the program, errors and geometry before numbers.

    Where rounding has decided an integer, all that may follow from it is open. `many`: how many
    perturbed runs are asked.
    """
    arbiter = Arbiter(program, eager, many)
    ends = [met_again(eager, lazuli), not_for_gpus(lazuli), left_half_done(program, eager, lazuli)]
    for end in ends:
        for turn, statement in end.items():
            eager, lazuli = before(eager, turn, statement), before(lazuli, turn, statement)
    failed = {
        error.kind
        for (_, i), error in lazuli.errors.items()
        if error.late and writes(program.statements[i])
    }
    open_turns = set()
    for found in (
        *different_errors(eager, lazuli),
        *different_geometry(eager, lazuli, failed),
        *different_aliases(eager, lazuli),
        *different_values(eager, lazuli, failed),
    ):
        difference, excuse = found
        if difference.turn in open_turns:
            continue
        if not excuse(arbiter):
            cause = blamed(program, difference)
            return dataclasses.replace(difference, operator=cause)
        if difference.is_choice:
            open_turns.add(difference.turn)
    return None


def blamed(program: Program, difference: Difference) -> str:
    """The operators of the statement that raised, or was the last to change the variable."""
    i = difference.statement
    if difference.path:
        name = re.match(r"\w+", difference.path)[0]
        mentions = [
            k
            for k, text in enumerate(program.statements[: i + 1])
            if name in assigned(text) or (name in variables(text) and writes(text))
            if not (difference.kind == "value" and SEEN_OTHERWISE.search(text))
        ]
        i = mentions[-1] if mentions else i
    if i >= len(program.statements):
        return "?"
    return " ".join(operators(program.statements[i])[:2]) or program.statements[i].split("(")[0]


# What writes no number: another view of the same ones.
SEEN_OTHERWISE = re.compile(r"\.(t|transpose|swap(axes|dims)|(un)?squeeze|detach|requires_grad)_\(")
WRITING = re.compile(r"\w_\(|out=|max_norm=|\] =|\.data = |[-+*/|&^]= |backward\(|\.step\(")


def writes(statement: str) -> bool:
    return WRITING.search(statement) is not None


def met_again(eager: Record, lazuli: Record) -> dict[int, int]:
    """By turn: the statement that asks again for what a write could not compute.

    It raises that write's error, where eager goes on with what the write has left half done.
    """
    found = {}
    for (turn, i), error in sorted(lazuli.errors.items()):
        late = [e.message for (t, k), e in lazuli.errors.items() if t == turn and k < i and e.late]
        at_once = eager.errors.get((turn, i))
        if error.message in late and (at_once is None or at_once.kind != error.kind):
            found.setdefault(turn, i)
    return found


def not_for_gpus(lazuli: Record) -> dict[int, int]:
    """By turn: the first statement of which torch has no kernel for GPUs. What follows lacks it."""
    refused = [where for where, error in lazuli.errors.items() if refused_by_gpu(error)]
    return {turn: i for turn, i in sorted(refused, reverse=True)}


def left_half_done(program: Program, eager: Record, lazuli: Record) -> dict[int, int]:
    """By turn: the first statement with `out=` that raised the same on both.

    Eager's kernels may have resized it by then, or not: nobody promises which.
    """
    found = {}
    for (turn, i), error in sorted(eager.errors.items()):
        if "out=" in program.statements[i] and same_error(error, lazuli.errors.get((turn, i))):
            found.setdefault(turn, i)
    return found


def before(record: Record, turn: int, end: int) -> Record:
    """What was seen of a turn before a statement, and of all other turns."""

    def seen(by_place: dict) -> dict:
        return {(t, i): x for (t, i), x in by_place.items() if t != turn or i < end}

    return Record(*(seen(x) for x in vars(record).values()))


# ---- Each yields what differs, and what may excuse it.


def different_errors(eager: Record, lazuli: Record):
    for where in sorted({*eager.errors, *lazuli.errors}):
        e, a = eager.errors.get(where), lazuli.errors.get(where)

        def excuse(arbiter, where=where, a=a):
            if a is not None and a.late and may_raise(eager, where[0], a, arbiter):
                return True
            return arbiter.anyone(lambda run: same_error(run.errors.get(where), a))

        if not same_error(e, a) and not refused_by_gpu(a):
            detail = f"{a} where eager has {e}"
            is_choice = a is not None and a.late
            yield Difference(error_kind(e, a), *where, "", detail, is_choice=is_choice), excuse


def same_error(e: Raised | None, a: Raised | None) -> bool:
    if e is None or a is None:
        return e is a
    return e.kind == a.kind and (a.late or e.message == a.message or on_gpu())


def refused_by_gpu(a: Raised | None) -> bool:
    """Whether torch has no such kernel for GPUs."""
    missing = "not implemented for|not supported|Could not run"
    return a is not None and on_gpu() and re.search(missing, a.message) is not None


def error_kind(e, a) -> str:
    if a is None:
        return "error missing"
    if e is None:
        return "error" if not a.late else "late error"
    return "error message" if e.kind == a.kind else "error class"


LATE = {"version", "requires_grad", "leaf", "history"}  # what a write changes before it fails


def different_geometry(eager: Record, lazuli: Record, failed: set[str]):
    for where in sorted({*eager.geometry, *lazuli.geometry}):
        expected, actual = eager.geometry.get(where, {}), lazuli.geometry.get(where, {})
        for path in dict.fromkeys([*expected, *actual]):
            e, a = expected.get(path), actual.get(path)
            if e == a:
                continue

            kinds = geometry_kinds(e, a)

            def excuse(arbiter, where=where, path=path, e=e, a=a, kind=kinds[0][0]):
                def seen(run):
                    return run.geometry.get(where, {}).get(path)

                if arbiter.anyone(lambda run: seen(run) == a):
                    return True
                # What makes numbers equal or not, as `unique` asks, may have decided its shape.
                return kind == "shape" and arbiter.anyone(lambda run: seen(run) != e)

            if failed and {kind for kind, *_ in kinds} <= LATE:
                continue  # what raised late had counted as a write
            detail = ", ".join(f"{k} {x} where eager has {y}" for k, x, y in kinds)
            yield Difference(kinds[0][0], *where, path, detail), excuse


def geometry_kinds(e, a) -> list[tuple]:
    if e is None or a is None or isinstance(e, str) or isinstance(a, str) or len(e) != len(a):
        return [("type", a, e)]
    return [(k, x, y) for k, x, y in zip(GEOMETRY, a, e, strict=False) if x != y]


def different_aliases(eager: Record, lazuli: Record):
    for where, e in eager.aliases.items():
        a = lazuli.aliases[where]
        if e != a:
            group = min((e ^ a), key=len)

            def excuse(arbiter, where=where, a=a):
                return arbiter.anyone(lambda run: run.aliases.get(where) == a)

            detail = f"share memory: {sorted(a - e)} where eager has {sorted(e - a)}"
            yield Difference("aliasing", *where, group[-1], detail), excuse


def different_values(eager: Record, lazuli: Record, failed: set[str]):
    for where, expected in eager.values.items():
        actual = lazuli.values[where]
        for path, e in expected.items():
            a = actual.get(path)
            if isinstance(a, Raised):
                if a.kind not in failed:
                    difference = Difference("late error", *where, path, str(a), is_choice=True)
                    yield difference, functools.partial(may_raise, eager, where[0], a)
                continue
            if isinstance(e, torch.Tensor) and isinstance(a, torch.Tensor):
                yield from different_numbers(where, path, e, a)
            elif not same_plain(e, a):

                def excuse(arbiter, where=where, path=path, e=e, a=a):
                    return plain_excused(arbiter, where, path, e, a)

                detail = "{} where eager has {}".format(*where_apart(a, e))
                yield Difference("read", *where, path, detail), excuse


def same_kernels() -> bool:
    """Whether lazuli calls torch's own kernels for everything."""
    return torch.lazuli.config.kernels == "eager"


def may_raise(eager: Record, turn: int, raised: Raised, arbiter: Arbiter) -> bool:
    """Whether rounding decides that the statement which a late error names raises it."""
    if (named := re.search(r"<statement (\d+)>", raised.message)) is None:
        return False
    where = turn, int(named[1])
    if where in eager.errors:
        return False
    return arbiter.anyone(lambda run: where in run.errors and run.errors[where].kind == raised.kind)


def different_numbers(where, path, e, a):
    if a.dtype != e.dtype or a.shape != e.shape:
        return  # that is a difference of geometry
    wrong = rounding.other_bits(a, e) if same_kernels() else rounding.wrong(a, e)
    if not wrong.flatten().any():  # any() takes 64 dimensions at most
        return

    def excuse(arbiter):
        def of(record):
            return record.values.get(where, {}).get(path)

        if same_kernels():
            return arbiter.runs(1) and arbiter.is_undefined
        for count in (0, FEW, arbiter.many):  # the wide run alone explains most
            runs = [of(run) for run in arbiter.runs(count)]
            if any(isinstance(run, torch.Tensor) and run.shape != e.shape for run in runs):
                return True  # rounding decides how many there are, as of what `unique` gives
            left = rounding.unexplained(a, e, runs, of(arbiter.exact))
            if left.flatten().any():
                left &= rounding.unexplained(a, e, runs, of(arbiter.careful))
            if SEEN_AS.search(str(arbiter.program)):
                left &= ~of_nan(a, e)
            if arbiter.is_undefined or not left.flatten().any():
                return True
        return False

    zero = rounding.is_rounded(e) and bool(
        (a == e)[wrong.any(-1) if e.is_complex() else wrong].all()
    )
    detail = f"{shown(a, wrong)} where eager has {shown(e, wrong)}"
    kind = "sign of zero" if zero else "value"
    is_choice = not rounding.is_rounded(e)
    yield Difference(kind, *where, path, detail, is_choice=is_choice), excuse


SEEN_AS = re.compile(r"\.view\((F|BF|I|U|C)\d+\)|view_as_(real|complex)")


def of_nan(a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """Which elements differ in bits of a nan of some type alone: those may be any."""
    shape = torch.view_as_real(e).shape if e.is_complex() else e.shape
    a, e = (torch.stack([t.resolve_conj().resolve_neg().flatten()]) for t in (a, e))
    parts = 2 if e.is_complex() else 1
    a, e = (t.flatten().view(torch.uint8).reshape(parts * t.numel(), -1) for t in (a, e))
    found = torch.zeros(len(e), dtype=torch.bool)
    for kind in NARROW.values():
        # A row is a few numbers of the type, or a few rows are one.
        rows = max(1, kind.itemsize // e.shape[1])
        if len(e) % rows == 0:
            x, y = (t.reshape(-1, rows * t.shape[1]).view(kind) for t in (a, e))
            same = ((x == y) | (x.isnan() & y.isnan())).all(-1)
            found |= same.repeat_interleave(rows)
    return found.view(shape)


def shown(t: torch.Tensor, wrong: torch.Tensor) -> str:
    chosen = t[wrong.any(-1) if t.is_complex() else wrong].flatten()
    return f"{chosen[:4].tolist()} ({chosen.numel()} of {t.numel()} of {t.dtype})"


# ---- Numbers that Python has read


NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")


def same_plain(e, a) -> bool:
    if type(e) is not type(a):
        return False
    few, many = (0.0, 0.0) if same_kernels() else (2e-7, 1e-4)
    if isinstance(e, float | complex):
        return near(e, a, few)
    if isinstance(e, str):
        a = without_device(a)
        e, a = (re.sub(r",\s+", ", ", text) for text in (e, a))
        return NUMBER.sub("#", e).split() == NUMBER.sub("#", a).split() and all(
            near(float(x), float(y), many)
            for x, y in zip(NUMBER.findall(e), NUMBER.findall(a), strict=True)
        )
    return e == a


def where_apart(a, e) -> tuple:
    """Two long texts from where they differ."""
    if not (isinstance(a, str) and isinstance(e, str)):
        return repr(a), repr(e)
    i = next((i for i, (x, y) in enumerate(zip(a, e, strict=False)) if x != y), 0)
    return tuple(repr(text[max(0, i - 30) : i + 30]) for text in (a, e))


def near(e, a, tolerance) -> bool:
    e, a = complex(e), complex(a)
    return str(e) == str(a) or abs(e - a) <= tolerance * abs(e)


def plain_excused(arbiter, where, path, e, a) -> bool:
    def of(run):
        return run.values.get(where, {}).get(path)

    if same_kernels():
        return arbiter.runs(1) and arbiter.is_undefined
    if arbiter.anyone(lambda run: same_plain(of(run), a)) or arbiter.is_undefined:
        return True
    if type(a) is not type(e) or not isinstance(e, int | float | complex | str):
        return False
    if isinstance(e, bool):
        return False
    expected, actual = digits(e), digits(a)
    runs = [digits(of(run)) for run in arbiter.runs(arbiter.many) if isinstance(of(run), type(e))]
    if any(len(other) != len(expected) for other in [actual, *runs]):
        return False
    spreads = [max(abs(x - y) for y in near) for x, *near in zip(expected, *runs, strict=True)]
    return all(
        abs(x - y) <= rounding.SPREAD * spread + 1e-4 * abs(x)
        for x, y, spread in zip(expected, actual, spreads, strict=True)
    )


def digits(x) -> list[complex]:
    """The numbers in a text, or the number itself."""
    if not isinstance(x, str):
        return [complex(x)]
    return [complex(n) for n in NUMBER.findall(without_device(x))]


def without_device(text: str) -> str:
    """A tensor's text as it is on cpu."""
    return re.sub(r",\s+device='lazuli:0'", "", text)
