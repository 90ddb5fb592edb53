"""fastai: the device of data and learners for which none is named."""

import types

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace
from torch_lazuli.libraries.naming import named


def teach(module: types.ModuleType) -> None:
    """`default_device`; with `use=False` it stays the CPU, as `defaults.use_cuda` says too."""

    @replace(module, "default_device")
    def default_device(original, use=-1):
        device = original(use)
        if module.defaults.use_cuda is False or named() is None:
            return device
        return torch.device(TYPE, 0)
