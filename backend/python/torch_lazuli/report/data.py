"""The report's data: what the plugin has recorded, with sources and advice, ready for JSON.

Times are microseconds, `begin` and `at` since the report began; sizes are bytes; a line or a text
is a number of `texts`.

    texts        every text that occurs more than once: lines ("file.py:12"), ops, types, names
    seconds      how long was watched
    bandwidth    bytes a second that copying the device's memory reaches; null if there is no room
    advice       [{problem, line, text, count, us}], the most important first
    lines        [[line, ops, recording, autograd, planning, compiling, running, waiting]]
    sources      {file: {first, text}}: the lines of files from line `first` on
    scopes       {line: "Class.method"}
    syncs        [{what, line, count, us}]; externals and other events likewise
    traces       [{key, ops, runs, ends, line, reason, first, run_us, compile_us, ..., new,
                 executables, kept, slowest}]: `new` says why, `kept` are single runs, each with
                 launches in pairs: `where` = executable, step and `when` = begin, us
    executables  [{id, planned, nodes, steps, count, total, least, most, outputs, arena, fullest}]:
                 nodes and steps in columns; a step's kind is a number of STEP_KINDS. Times are the
                 host's; with a GPU also device_count and device_total: launches that were measured
                 there, and what they took
    nests        [{name, nest, ll, s or ptx}]: loop nest, LLVM IR and machine code
    events       columns: kind (a number of EVENT_KINDS), reason, line, trace, begin, us
    memory       {at, live, peak, peak_at, peak_trace, holders: [[line, bytes]]}
"""

import ast
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from torch_lazuli.advice import advise
from torch_lazuli.event import Event
from torch_lazuli.operators import ops

VERSION = 1
STEP_KINDS = ["kernel", "library", "external", "eager", "joined", "alone"]
EVENT_KINDS = ["sync", "compile", "run", "peek", "external", "wait"]
_ACCOUNTS = 6
_WHOLE_FILE = 4000  # lines; of longer files only what is near
_NEAR = 40


def collect() -> dict[str, Any]:
    """All data of what was watched since start()."""
    raw = ops._report_take()
    texts: list[str] = list(raw["texts"])
    numbers = {text: number for number, text in enumerate(texts)}

    def number(text: str) -> int:
        if text not in numbers:
            numbers[text] = len(texts)
            texts.append(text)
        return numbers[text]

    happened = [Event(**event) for event in json.loads(ops._report_events())]
    by_key = {trace["key"]: index for index, trace in enumerate(raw["traces"])}
    lines = _lines(raw)
    traces = [_trace(trace, by_key) for trace in raw["traces"]]
    advice = [
        {
            "problem": one.problem,
            "line": number(one.where),
            "text": one.text,
            "count": one.count,
            "us": _short(one.time_us),
        }
        for one in advise(happened)
    ]
    places = {texts[line] for line in _lines_of(raw, lines, advice)} | {e.where for e in happened}
    sources, scopes = _sources(places)
    return {
        "version": VERSION,
        "torch": torch.__version__,
        "device": raw["backing"],
        "program": " ".join(sys.argv),
        "seconds": round(raw["us"] / 1e6, 6),
        "bandwidth": _bandwidth(torch.device(raw["backing"])),
        "step_kinds": STEP_KINDS,
        "event_kinds": EVENT_KINDS,
        "reasons": list(raw["reasons"]),
        "advice": advice,
        "lines": lines,
        "sources": sources,
        "scopes": {number(where): scope for where, scope in scopes.items()},
        "syncs": _of_kind(happened, {"sync"}, number),
        "externals": _of_kind(happened, {"external"}, number),
        "others": _of_kind(happened, {"new trace", "moved again", "autograd node", "kept history",
                                      "peek", "new plan", "shadow"}, number),
        "traces": traces,
        "executables": [_executable(e) for e in raw["executables"]],
        "nests": [dict(nest) for nest in raw["nests"]],
        "events": _events(raw, by_key),
        "events_lost": raw["events_lost"],
        "left_out": raw["left_out"],
        "memory": {
            "at": _shorts(raw["memory_at"]),
            "live": list(raw["memory_live"]),
            "peak": raw["peak"],
            "peak_at": _short(raw["peak_at"]) if raw["peak"] else 0,
            "peak_trace": by_key.get(raw["peak_key"], -1),
            "holders": sorted(
                map(list, zip(raw["peak_line"], raw["peak_bytes"], strict=True)),
                key=lambda pair: -pair[1],
            ),
        },
        "texts": texts,
    }  # fmt: skip


def _short(us: float) -> float:
    return round(us, 1)


def _shorts(values: Iterable[float]) -> list[float]:
    return [round(value, 1) for value in values]


def _of_kind(happened: list[Event], kinds: set[str], number) -> list[dict[str, Any]]:
    found = [
        {
            "kind": e.kind,
            "what": e.what,
            "line": number(e.where),
            "count": e.count,
            "us": _short(e.time_us),
        }
        for e in happened
        if e.kind in kinds
    ]
    return sorted(found, key=lambda e: (-e["us"], -e["count"]))


def _lines(raw) -> list[list[float]]:
    times = list(raw["line_us"])
    rows = [
        [line, count, *_shorts(times[i * _ACCOUNTS : (i + 1) * _ACCOUNTS])]
        for i, (line, count) in enumerate(zip(raw["line"], raw["line_ops"], strict=True))
    ]
    return sorted(rows, key=lambda row: -sum(row[2:]))


def _single(run) -> dict[str, Any]:
    return {
        "begin": _short(run["begin"]),
        "us": _short(run["us"]),
        "where": list(run["where"]),
        "when": _shorts(run["when"]),
    }


def _trace(trace, by_key: dict[int, int]) -> dict[str, Any]:
    plain = ("ops", "runs", "ends", "compiles", "line", "reason", "parts")
    times = ("first", "run_us", "compile_us", "passes_ms", "lowering_ms", "codegen_ms")
    result = {name: trace[name] for name in plain}
    result |= {name: round(trace[name], 3) for name in times}
    result["key"] = f"{trace['key'] & (1 << 64) - 1:016x}"
    if "new" in trace:
        new = dict(trace["new"])
        new["trace"] = by_key.get(new.pop("key_before"), -1)
        result["new"] = new
    result["executables"] = list(trace["executables"])
    result["kept"] = [_single(run) for run in trace["kept"]]
    result["slowest"] = _single(trace["slowest"])
    return result


def _plain(value):
    """Dicts and lists of the plugin's as Python's own."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _executable(executable) -> dict[str, Any]:
    result = _plain(dict(executable))
    for name in ("total", "least", "most", "device_total"):
        if name in result:
            result[name] = _shorts(result[name])
    return result


def _events(raw, by_key: dict[int, int]) -> dict[str, list]:
    kinds = list(raw["event_kind"])
    external = EVENT_KINDS.index("external")
    return {
        "kind": kinds,
        "reason": list(raw["event_reason"]),
        "line": list(raw["event_line"]),
        # Of an external call: the text that names it.
        "trace": [key if kind == external else by_key.get(key, -1)
                  for kind, key in zip(kinds, raw["event_key"], strict=True)],
        "begin": _shorts(raw["event_begin"]),
        "us": _shorts(raw["event_us"]),
    }  # fmt: skip


def _lines_of(raw, lines, advice) -> set[int]:
    """The numbers of all lines that the page may show."""
    found = {row[0] for row in lines} | {one["line"] for one in advice}
    found |= {line for executable in raw["executables"] for line in executable["nodes"]["line"]}
    for trace in raw["traces"]:
        found.add(trace["line"])
        if "new" in trace:
            found |= {trace["new"]["line"], trace["new"]["line_before"]}
    return found


def _sources(places: set[str]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The files in which these lines are, and in which function each line is."""
    numbers: dict[str, list[int]] = {}
    for place in places:
        file, _, line = place.rpartition(":")
        if file and line.isdigit():
            numbers.setdefault(file, []).append(int(line))
    sources, scopes = {}, {}
    for file, lines in sorted(numbers.items()):
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        rows = text.splitlines()
        first, last = 1, len(rows)
        if len(rows) > _WHOLE_FILE:
            first, last = max(1, min(lines) - _NEAR), min(len(rows), max(lines) + _NEAR)
        sources[file] = {"first": first, "text": "\n".join(rows[first - 1 : last])}
        scopes |= {f"{file}:{line}": scope for line, scope in _scopes(text, lines).items()}
    return sources, scopes


def _scopes(text: str, lines: list[int]) -> dict[int, str]:
    """The innermost class and function around each line: "Attention.forward"."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    found: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{name}.{child.name}" if name else child.name
                for line in lines:
                    if child.lineno <= line <= (child.end_lineno or child.lineno):
                        found[line] = inner
                visit(child, inner)
            else:
                visit(child, name)

    visit(tree, "")
    return found


def _bandwidth(device: torch.device) -> float | None:
    """What copying memory reaches: bytes that are read and written in a second."""
    empty = torch._C._VariableFunctions.empty  # as it is where a program was not taken over
    on_host = device.type == "cpu"
    elements, copies = (8 << 20, 1) if on_host else (64 << 20, 32)
    try:
        source, target = (empty(elements, device=device).fill_(1) for _ in range(2))
    except torch.OutOfMemoryError:
        return None
    best = float("inf")
    for _ in range(5):
        target[0].item()  # waits for a GPU
        begin = time.perf_counter()
        for _ in range(copies):
            target.copy_(source)
        target[0].item()
        best = min(best, time.perf_counter() - begin)
    return round(2 * source.nbytes * copies / best)
