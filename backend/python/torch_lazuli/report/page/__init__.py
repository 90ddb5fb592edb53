"""Puts the report's page together: one file with its data, its code and its libraries."""

import base64
import gzip
import html
import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
# What the page uses of others: requirements/page.txt says where tools/page_libraries takes it from.
LIBRARIES = ["d3.min.js", "dagre.js"]


def check(path: Path) -> None:
    """Raises OSError if no page can be written there: before there is anything to lose."""
    for name in LIBRARIES:
        _library(name)
    if not path.absolute().parent.is_dir():
        raise NotADirectoryError(f"{path.absolute().parent} is no folder")


def _library(name: str) -> Path:
    path = _HERE / "libraries" / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there; run tools/page_libraries, which fetches it")
    return path


def packed(data: dict[str, Any]) -> str:
    """The data as compressed JSON, in characters that HTML leaves alone."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def page(data: dict[str, Any]) -> str:
    """The page. Raises FileNotFoundError where a library of it was not fetched."""
    d3, dagre = (_library(name).read_text(encoding="utf-8") for name in LIBRARIES)
    # A module of its own becomes part of ours.
    dagre = dagre.replace("export const { layout, Graph } = dagre;", "globalThis.dagre = dagre;")
    values = {
        "title": html.escape(f"Lazuli: {data['program']}"),
        "style": (_HERE / "page.css").read_text(encoding="utf-8"),
        "d3": d3,
        "dagre": dagre,
        "code": "\n".join(
            (_HERE / name).read_text(encoding="utf-8")
            for name in ("model.js", "detail.js", "views.js", "timeline.js", "graph.js", "main.js")
        ),
        "data": packed(data),
    }
    text = (_HERE / "page.html").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value, 1)
    return text
