"""The functions that TorchScript compiles as operators: it knows them by identity."""

from collections.abc import Iterable
from typing import Any

from torch.jit import _builtins


def compile_as(functions: Iterable[tuple[Any, Any]]) -> None:
    """Of pairs of a function and the one that it replaces: TorchScript compiles the first as it
    does the second. A pair whose second function is no operator for it is left alone."""
    known = _builtins._get_builtin_table()
    for ours, original in functions:
        if operator := known.get(id(original)):
            known[id(ours)] = operator
