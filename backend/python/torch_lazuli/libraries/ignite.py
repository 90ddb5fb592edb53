"""ignite: what `ignite.distributed.device()` is, in one process and in several."""

import types

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace
from torch_lazuli.libraries.naming import named


def teach_one_process(module: types.ModuleType) -> None:
    """Without torch.distributed."""
    _answer(module._SerialModel)


def teach_processes(module: types.ModuleType) -> None:
    """With it."""
    _answer(module._NativeDistModel)


def _answer(model: type) -> None:
    @replace(model, "device")
    def device(original, self):
        return original(self) if named() is None else torch.device(TYPE, 0)
