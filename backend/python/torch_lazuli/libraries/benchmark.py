"""torch.utils.benchmark: what a statement takes includes what it computes.

Its timer waits for the device before and after many runs of a statement. Of these only the last
one's result can still be read, so the device would compute the others never.
"""

import ast
import timeit
import types

import torch

from torch_lazuli.libraries.imports import replace

_RESULT, _WAIT = "_lazuli_result", "_lazuli_wait"


def teach(module: types.ModuleType) -> None:
    """Lets `Timer` compute each run of a Python statement, once the device is in use."""

    @replace(module.Timer, "__init__")
    def init(original, self, *arguments, **options):
        original(self, *arguments, **options)
        if type(self._timer) is timeit.Timer:
            self._timer = _Timer(self._timer, self._task_spec.stmt, self._task_spec.setup)


class _Timer:
    """Python's timer, which chooses between a statement and the one that is computed as well."""

    def __init__(self, plain: timeit.Timer, statement: str, setup: str):
        names = plain.inner.__globals__ | {_WAIT: lambda: torch.lazuli.synchronize()}
        self._plain = plain
        self._computed = timeit.Timer(_computed(statement), setup, plain.timer, names)

    def timeit(self, number: int) -> float:
        is_used = torch.lazuli.is_initialized()
        return (self._computed if is_used else self._plain).timeit(number)


def _computed(statement: str) -> str:
    """The statement, whose result is kept until the device has computed it."""
    tree = ast.parse(statement)
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Assign([ast.Name(_RESULT, ast.Store())], last.value)
    tree.body += ast.parse(f"{_WAIT}()").body
    return ast.unparse(ast.fix_missing_locations(tree))
