"""How long steps take after the first ones."""

import contextlib
from collections.abc import Callable

import torch

from benchmarks import harness, turns
from benchmarks.models import steps
from benchmarks.rivals.arm import Rival

WARM_UP = 5


def compare(name: str, mode: str, arguments, failed: dict[str, str]) -> dict[str, object]:
    """Medians of the turns that follow some steps to warm up, and how the arms' results differ.

    An arm that fails to warm up is added to `failed` with its error; those there are not tried.
    """
    with contextlib.ExitStack() as stack:
        return _compare(name, mode, arguments, failed, stack)


def _compare(
    name: str, mode: str, arguments, failed: dict[str, str], stack: contextlib.ExitStack
) -> dict[str, object]:
    torch._dynamo.reset()
    conditions = steps.Conditions.of(arguments)
    runs, losses = {}, {}
    for arm in arguments.arms:
        if arm in failed:
            continue
        try:
            if arm in harness.RIVALS:
                runs[arm] = stack.enter_context(make_rival(name, mode, arm, arguments.threads))
                continue
            run = steps.make_step(name, mode, arm, conditions)
            losses[arm] = warm_up(arm, run)
            runs[arm] = run
        except Exception as error:
            failed[arm] = harness.in_a_line(error)
    taken = turns.take_turns(runs, arguments.rounds, arguments.steps)

    row: dict[str, object] = columns(taken.medians(), arguments.arms)
    for arm in harness.RIVALS:
        if arm in arguments.arms:
            begun = runs[arm].begun if arm in runs else {}
            row |= {f"{arm} {what}": begun.get(what) for what in ("convert s", "first s")}
    dropped = "inactive" if mode == "infer" else conditions.dropout_of(name)
    row["dropout"] = dropped
    row["difference"] = None  # what draws numbers cannot be compared
    if mode == "infer":
        row["difference"] = largest_difference(taken.results)
    elif dropped == "none" or conditions.without_dropout:
        row["difference"] = largest_difference(losses)
    in_ms = {arm: [1e3 * value for value in values] for arm, values in taken.seconds.items()}
    return row | {"turns ms": in_ms}


def make_rival(name: str, mode: str, engine: str, threads: int) -> Rival:
    """An engine that has the model, and has run it some times."""
    if mode == "train":
        raise RuntimeError("does not train")
    rival = Rival(engine, name, threads)
    rival.take_turn(WARM_UP)
    return rival


def warm_up(arm: str, run: Callable[[], torch.Tensor]) -> list[torch.Tensor]:
    """Some steps that are read at once, and some that are kept; the former's results."""
    results = [turns.read(arm, [run()])[0] for _ in range(WARM_UP)]
    turns.read(arm, [run() for _ in range(2)])
    return results


def columns(medians: dict[str, float], arms: list[str]) -> dict[str, object]:
    """The arms' milliseconds and lazuli's gain over each; None where an arm failed."""
    row: dict[str, object] = {
        f"{arm} ms": medians[arm] * 1e3 if arm in medians else None for arm in arms
    }
    if "lazuli" in arms:
        for arm in arms:
            known = {arm, "lazuli"} <= medians.keys()
            if arm != "lazuli":
                row[f"{arm}/lazuli"] = medians[arm] / medians["lazuli"] if known else None
    return row


def largest_difference(results: dict[str, list[torch.Tensor]]) -> float:
    """How far the arms' results are from the first one's, in units of its largest number."""
    expected, *others = results.values()
    return max(
        (
            ((got - want).abs().max() / want.abs().max()).item()
            for result in others
            for got, want in zip(result, expected, strict=True)
        ),
        default=0.0,
    )
