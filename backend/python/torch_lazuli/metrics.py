"""Counters of what the device did since the start, or since they were reset."""

import json
import os
from pathlib import Path
from typing import Any

from torch_lazuli.config import config
from torch_lazuli.operators import ops


def metrics() -> dict[str, Any]:
    """The counters by name.

    Among them: `kernels` (no counter: the setting, `eager` in reference mode), `ops_recorded`,
    `autograd_nodes` (that had to be made), `derivatives_repeated` (of ops whose backward was
    recorded again as before), `traces_compiled` (planned whole), `traces_in_parts` (runs of
    traces that were not), `traces_reused`, `parts_compiled`, `parts_reused`, `parts_unplanned` and
    `parts_resized` (of the former: planned anew, run as they were, run op by op as they came too
    seldom, and run by a plan that was made for other sizes), `parts_ahead` (those that ran
    while the rest was still being recorded), `ops_cut` and `cut_us` (recorded ops of traces that
    were cut into parts, and the microseconds that cutting took), `ops_unplanned`, `unplanned_us`,
    `ops_resized` and `resize_us` (the same of making those parts ready to run),
    `kernels_compiled`, `kernels_in_bytecode` (those of them that LLVM compiles only if they run
    long), `kernels_loaded` (from disk, where another process left them), `kernels_reused`,
    `external_calls` (a dict by op), `syncs` (a dict by reason), `peeks` (reads
    of values computed apart from the trace, which did not end), `runs_captured` and
    `captured_runs_launched` (on a GPU: as CUDA graphs, and again as such),
    `traces_shadowed` and `derivatives_shadowed` (compared with eager), `shadow_mismatches` (those
    that differed), `bytes_live`, `bytes_peak`, and, while `config.time_host` is on,
    `host_seconds` (a dict: of all threads, spent in recording, autograd, ending traces, compiling
    them and running them).
    """
    return {"kernels": config.kernels, **json.loads(ops._metrics())}


def reset_metrics() -> None:
    """Sets the counters to zero; `bytes_live` keeps what is held."""
    ops._metrics_reset()


def write() -> None:
    """Writes the counters to the file that LAZULI_METRICS names: when Python ends."""
    if file := os.environ.get("LAZULI_METRICS"):
        Path(file).write_text(json.dumps(metrics(), indent=1) + "\n")
