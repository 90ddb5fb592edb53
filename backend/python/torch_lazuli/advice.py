"""What a program does that costs time or memory, with its line and what to do instead.

Advice follows from counts of events alone, never from time: the same program gets the same advice.
"""

import ast
import linecache
from collections.abc import Iterable
from dataclasses import dataclass

from torch_lazuli.event import Event

# Ends of traces that are where a step ends by itself.
_ENDS = {"optimizer step", "repetition", "end of a known trace", "synchronize", "collective"}
_READS = {"read", "copy to host"}
_FEWEST = 3


@dataclass(frozen=True)
class Advice:
    """One thing that a line does, and what to do instead."""

    problem: str
    """Its short name: "read", "log", "mask", "no kernel", "new shape", "number in a shape",
    "growing list", "other operations", "moved again", "kept history", "hook", "derivative"."""
    where: str
    """The Python line, as file:line."""
    text: str
    """What happens there and what to do, in one or two sentences."""
    count: int
    """How often it happened."""
    time_us: float
    """How long it took, in microseconds, where that is measured; otherwise 0."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


def source_of(where: str) -> str:
    """The text of a line that is given as file:line; empty if the file cannot be read."""
    file, _, number = where.rpartition(":")
    return linecache.getline(file, int(number)).strip() if file and number.isdigit() else ""


def statement_of(source: str) -> ast.stmt | None:
    """What a single line says, as far as it can be parsed alone; a block's head counts."""
    heads = ("if ", "while ", "for ", "with ", "elif ")
    text = source[2:] if source.startswith("elif ") else source
    for attempt in (text, text + "\n pass" if text.startswith(heads) else text):
        try:
            return ast.parse(attempt).body[0]
        except (SyntaxError, IndexError):
            continue
    return None


def _decides(source: str) -> bool:
    """Whether what the line reads decides which way the program goes."""
    statement = statement_of(source)
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return True
    return statement is not None and any(isinstance(n, ast.IfExp) for n in ast.walk(statement))


def _accumulates(source: str) -> bool:
    """Whether the line adds to what is there: `a += b`, `a = a + b`, `list.append(b)`."""
    statement = statement_of(source)
    if isinstance(statement, ast.AugAssign):
        return True
    if isinstance(statement, ast.Assign):
        targets = {ast.unparse(t) for t in statement.targets}
        return any(isinstance(n, ast.expr) and ast.unparse(n) in targets
                   for n in ast.walk(statement.value))  # fmt: skip
    return ".append(" in source or ".extend(" in source


def _steps(events: list[Event]) -> int:
    """How many steps the program made: optimizer steps, or else turns of its busiest loop."""
    syncs = [e for e in events if e.kind == "sync"]
    optimizer = [e.count for e in syncs if e.what == "optimizer step"]
    return max(optimizer or [e.count for e in syncs], default=0)


_READ_TEXTS = {
    "read": (
        "the value that is read here decides how to go on, so the step stops and waits for it each "
        "time: compute both ways and choose with torch.where, or check it only now and then"
    ),
    "log": (
        "a value is read here in each step, which cuts the step in two: keep it on the device "
        "(`total += loss.detach()`) and read it every n-th step, or after optimizer.step()"
    ),
}


def _readers(events: list[Event], often: int) -> list[Advice]:
    syncs = [e for e in events if e.kind == "sync" and e.count >= often]
    ends = [e for e in syncs if e.what in _ENDS and e.what != "synchronize"]
    reads = [e for e in syncs if e.what in _READS]
    # Where nothing else ends a step, one read has to: the last one.
    needed = reads[-1:] if not ends else []
    found = []
    for event in reads:
        if event in needed:
            continue
        problem = "read" if _decides(source_of(event.where)) else "log"
        text = _READ_TEXTS[problem]
        found.append(Advice(problem, event.where, text, event.count, event.time_us))
    for event in syncs:
        what, _, node = event.what.partition(" in ")
        if not node or what not in _READS:
            continue
        text = (
            f"the derivative behind {node} is PyTorch's, and reads numbers to choose its formula, "
            "which cuts the step in two: write that operation with other ones, or take it out of "
            "what is differentiated"
        )
        found.append(Advice("derivative", event.where, text, event.count, event.time_us))
    return found


def _masks(events: list[Event], often: int) -> list[Advice]:
    found = []
    for event in events:
        if event.kind != "sync" or event.what != "data-dependent op" or event.count < often:
            continue
        if ".backward(" in source_of(event.where):
            continue  # of what forward did at another line
        text = (
            "the shape of the result depends on numbers (a mask as an index, nonzero, unique), so "
            "the step stops here to know it: use torch.where, or multiply by the mask, and divide "
            "by mask.sum() for a mean"
        )
        found.append(Advice("mask", event.where, text, event.count, event.time_us))
    return found


def _external(events: list[Event], often: int, masks: list[Advice]) -> list[Advice]:
    masked = {advice.where for advice in masks}
    found = []
    for event in events:
        if event.kind != "external" or event.count < often or event.where in masked:
            continue
        if masks and ".backward(" in source_of(event.where):
            continue
        if event.what.startswith("lazuli::"):
            continue  # a library that we have chosen
        name = event.what.removeprefix("aten::").removeprefix("_")
        text = (
            f"{name} has no kernel of Lazuli's: PyTorch's own computes it, and nothing is fused "
            "with it. Write it with other operations, or, if eager needs the same time for it, "
            "leave it"
        )
        found.append(Advice("no kernel", event.where, text, event.count, event.time_us))
    return found


_NEW = {
    "shape": ("new shape", (
        "a tensor comes with another shape nearly every time, and each shape is a new trace: pad "
        "to a few sizes (powers of two), or sort what is similar into the same batch"
    )),
    "number": ("number in a shape", (
        "a Python number here is part of the operation ({what}) and changes nearly every time, so "
        "each step is a new trace: keep the size the same and use a mask, or make the number a "
        "tensor"
    )),
    "length": ("growing list", (
        "what is computed here becomes longer or shorter nearly every time (a list of tensors that "
        "grows, a loop), so each step is a new trace: keep a running sum, or a tensor of fixed "
        "size that is written in place"
    )),
    "operation": ("other operations", (
        "other operations are recorded here than the time before, so each step is a new trace: "
        "move the branch out of the step, or compute both ways and choose with torch.where"
    )),
}  # fmt: skip


def _new_traces(events: list[Event], often: int) -> list[Advice]:
    found = []
    for event in events:
        kind, _, what = event.what.partition(": ")
        if event.kind != "new trace" or event.count < often or kind not in _NEW:
            continue
        problem, text = _NEW[kind]
        found.append(Advice(problem, event.where, text.format(what=what), event.count, 0))
    return found


def _moved(events: list[Event], often: int) -> list[Advice]:
    text = (
        "the same CPU tensor is copied to the device again and again, unchanged: copy it once "
        "before the loop, or register it as a buffer of the module"
    )
    return [
        Advice("moved again", e.where, text, e.count, 0)
        for e in events
        if e.kind == "moved again" and e.count >= often
    ]


def _kept(events: list[Event], steps: int) -> list[Advice]:
    kept = [e for e in events if e.kind == "kept history" and e.count >= max(8, steps // 2)]
    culprits = [e for e in kept if _accumulates(source_of(e.where))]
    text = (
        "results of {count} steps are kept together with all that backward would need of them: add "
        "`.detach()` to what is added up or put into a list"
    )
    return [
        Advice("kept history", e.where, text.format(count=e.count), e.count, 0)
        for e in culprits or sorted(kept, key=lambda e: -e.count)[:1]
    ]


# Torch's functions that ask a tensor for its node, by their names.
_HOOKS = {"register_hook", "_apply_on_tensors", "register_multi_grad_hook", "retain_grad"}


def _hooks(events: list[Event], often: int) -> list[Advice]:
    text = (
        "a hook, or a look at grad_fn, makes an autograd node here for each operation before it, "
        "in each step, and backward has to call it: register hooks on parameters "
        "(register_post_accumulate_grad_hook), or compute what the hook does from `.grad` after "
        "backward"
    )
    found = []
    for event in events:
        if event.kind != "autograd node" or event.count < often:
            continue
        source = source_of(event.where)
        if event.what in _HOOKS or "grad_fn" in source or "hook" in source:
            found.append(Advice("hook", event.where, text, event.count, 0))
    return found


def advise(events: Iterable[Event]) -> list[Advice]:
    """Advice on what happened, what took longest first. Of a program that does well: none."""
    events = list(events)
    steps = _steps(events)
    often = max(_FEWEST, steps // 2)
    masks = _masks(events, often)
    found = [
        *_readers(events, often),
        *masks,
        *_external(events, often, masks),
        *_new_traces(events, often),
        *_moved(events, often),
        *_kept(events, steps),
        *_hooks(events, often),
    ]
    return sorted(found, key=lambda advice: -advice.time_us)
