"""Shadow runs: is it Lazuli, or is it me?

A trace that is shadowed is computed a second time, one op at a time by torch's own kernels, and
what is alive at its end is compared. See lazy/shadow/shadow.h.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from torch_lazuli.config import config
from torch_lazuli.operators import ops


@dataclass(frozen=True)
class ShadowReport:
    """A difference between Lazuli and eager that rounding does not explain, led to its op."""

    kind: str
    """ "value", or "derivative": the gradient that was recorded for the op is another than eager's,
    though it is computed as recorded."""
    op: str
    """The op that is computed wrong though its operands are right."""
    line: str
    """The Python line that recorded it, as file:line."""
    index: list[int]
    """Of the element that differs most; `ours`, `eager` and `exact` are its values."""
    ours: float
    eager: float
    exact: float
    """Computed in float64."""
    explained: float
    """The distance from `exact` that rounding explains."""
    elements: int
    """How many elements differ."""
    shape: str
    """Not empty: the shapes differ, as this says."""
    together_with: list[str]
    """Ops that must be computed together with it for the difference; empty: it is wrong alone."""
    gone_without: list[str]
    """Passes and settings without which the difference is gone."""
    interpreter_agrees_with: str
    """With whom the IR's reference interpreter agrees: "eager", "lazuli", "neither", or ""."""
    interpreted_rows: list[str]
    """Rows of the trace that torch has no kernel for: the IR's interpreter stood in for it."""
    folder: str
    """Where `reproduce.py` is, which shows the difference in another process."""
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text


class ShadowMismatch(RuntimeError):
    """A shadow run found differences, which are `reports`."""

    def __init__(self, reports: list[ShadowReport]):
        super().__init__("\n".join(report.text for report in reports))
        self.reports = reports


class Shadow:
    """What `shadow()` gives: `reports` so far, and `traces`, how many were compared."""

    def __init__(self) -> None:
        self._reports: list[ShadowReport] = []
        self._begin = _compared()
        self._end: int | None = None  # once the block is over

    @property
    def reports(self) -> list[ShadowReport]:
        if self._end is None:
            self._reports += take_reports()
        return self._reports

    @property
    def traces(self) -> int:
        return (_compared() if self._end is None else self._end) - self._begin

    def _close(self) -> None:
        self._reports = self.reports
        self._end = _compared()


def _compared() -> int:
    return json.loads(ops._metrics())["traces_shadowed"]


def take_reports() -> list[ShadowReport]:
    """The reports since the last call: those of `LAZULI_SHADOW`, which no `shadow()` takes."""
    return [ShadowReport(**report) for report in json.loads(ops._shadow_reports())]


@contextlib.contextmanager
def shadow(
    traces: int | str = "all", *, action: str = "raise", folder: str | Path = ""
) -> Iterator[Shadow]:
    """Computes what is recorded in the block a second time, op by op with torch's own kernels.

    A difference that rounding does not explain raises ShadowMismatch at the line that ended the
    trace, which names the op and its line; with `action="warn"` it is a warning, and the block goes
    on. Either way it is in the `reports` of what this gives. `traces`: after so many traces the
    others run alone. `folder`: where a script is written that shows the difference; a folder for
    temporary files unless given. It is slow: several times eager's time.

        with torch.lazuli.shadow() as found:
            train_one_step()
        print(found.traces, "traces agree with eager")
    """
    ops._synchronize(0)
    take_reports()
    found = Shadow()
    with config.patch(shadow=traces, shadow_action=action, shadow_folder=str(folder)):
        try:
            yield found
            ops._synchronize(0)
        except RuntimeError as error:
            if found.reports and str(error).startswith("lazuli: a shadow run found"):
                raise ShadowMismatch(found.reports) from error
            raise
        finally:
            found._close()


def replay(script: str | Path) -> str:
    """Computes the graph beside `script` with Lazuli and with eager; "" if they agree.

    For the `reproduce.py` of a report's folder.
    """
    folder = Path(script).resolve().parent
    settings = json.loads((folder / "run.json").read_text())
    inputs = list(torch.load(folder / "inputs.pt"))
    if (forward := folder / "forward.lzir").exists():
        backward = (folder / "backward.lzir").read_text()
        text = ops._shadow_replay_derivative(
            forward.read_text(), backward, inputs, settings["scalars"], settings["reads"]
        )
    else:
        text = ops._shadow_replay(
            (folder / "graph.lzir").read_text(),
            inputs,
            settings["scalars"],
            settings["fusion"],
            ",".join(settings["disable_passes"]),
        )
    difference = json.loads(text)
    if difference is None:
        return ""
    if difference["shape"]:
        return f"lazuli gives it {difference['shape']}"
    return (
        f"{difference['elements']} elements differ; at {difference['index']}: "
        f"lazuli {difference['ours']:.9g}, eager {difference['eager']:.9g}, "
        f"in float64 {difference['exact']:.9g} (rounding explains {difference['explained']:.9g})"
    )
