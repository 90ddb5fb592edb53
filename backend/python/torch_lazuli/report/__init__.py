"""The report: one page with what each line, step and kernel of a program took.

`with torch.lazuli.report("FILE.html"): ...` writes one of a block. `start()` and `write(path)` do
the same for who has no block, such as a launcher.
"""

import contextlib
import html
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from torch_lazuli.operators import ops
from torch_lazuli.report import page


class Report:
    """What happened in a block: a page to save, and in a notebook a rich display.

    Until the block has ended it has no data.
    """

    def __init__(self) -> None:
        self._data: dict[str, Any] | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The page's data, as data.py documents it. Raises RuntimeError within the block."""
        if self._data is None:
            raise RuntimeError("lazuli: the report's block has not ended yet")
        return self._data

    @property
    def advice(self) -> list[str]:
        """What to change, most important first: each with its Python line."""
        texts = self.data["texts"]
        return [f"{texts[one['line']]}: {one['text']}" for one in self.data["advice"]]

    def html(self) -> str:
        """The whole page. Raises FileNotFoundError where its JavaScript libraries are missing."""
        from torch_lazuli.report.page import page

        return page(self.data)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the page. Raises OSError if it cannot be written."""
        Path(path).write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html())}" title="Lazuli report" '
            'style="width: 100%; height: 720px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        if self._data is None:
            return "<report of a block that has not ended>"
        advice = "\n".join(f"advice: {one}" for one in self.advice)
        return advice or "<report without advice: .save(path) writes the page>"


def start() -> None:
    """Begins to watch. What an earlier start() has gathered is forgotten."""
    ops._report_start()


def stop() -> Report:
    """Ends what start() began: computes what is pending, and gives what was seen.

    Raises the error of what is pending, if it fails. Nothing is watched any more then either.
    """
    with _ending(None) as result:
        pass
    return result


def write(path: str | PathLike[str]) -> Report:
    """stop(), and writes the page to a file. Raises OSError if it cannot be written.

    An error of what is pending is raised when the page is written.
    """
    with _ending(path) as result:
        pass
    return result


@contextlib.contextmanager
def _ending(path: str | PathLike[str] | None) -> Iterator[Report]:
    """At the end of the block: stops, and writes to `path`, if one is given."""
    from torch_lazuli.report.data import collect

    result = Report()
    try:
        yield result
    finally:
        try:
            ops._synchronize(0)
        finally:
            ops._report_stop()
            result._data = collect()
            if path is not None:
                result.save(path)


@contextlib.contextmanager
def report(path: str | PathLike[str] | None = None) -> Iterator[Report]:
    """Watches a block, and writes a page about it to `path`, if one is given.

        with torch.lazuli.report("report.html") as report:
            train()

    The page needs no network. What is given to `as` can be saved later, too, and a notebook
    displays it. Blocks must not be nested. If the block raises, the page is written all the same.
    Raises OSError before the block if no page can be written there.
    """
    if path is not None:
        page.check(Path(path))
    start()
    with _ending(path) as result:
        yield result
