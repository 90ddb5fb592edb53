"""Counters of what the device did since the start, or since they were reset."""

import json
from typing import Any

import torch

_ops = torch.ops.lazuli


def metrics() -> dict[str, Any]:
    """The counters by name.

    Among them: `ops_recorded`, `traces_compiled`, `traces_reused`, `kernels_compiled`,
    `kernels_reused`, `external_calls` (a dict by op), `syncs` (a dict by reason), `bytes_live`,
    `bytes_peak`.
    """
    return json.loads(_ops._metrics())


def reset_metrics() -> None:
    """Sets the counters to zero; `bytes_live` keeps what is held."""
    _ops._metrics_reset()
