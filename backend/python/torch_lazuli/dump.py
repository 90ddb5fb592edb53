"""The pending trace, to look at before it runs."""

from torch_lazuli.operators import ops


def dump(stage: str = "trace") -> str:
    """The ops that are recorded and not computed yet, as textual IR, each with its Python line.

    Raises RuntimeError for a stage other than "trace"; what the later stages make of a trace is
    written by LAZULI_DEBUG=<stages>:<folder> when the trace is compiled.
    """
    return ops._dump(stage)
