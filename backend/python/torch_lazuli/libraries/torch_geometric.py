"""torch_geometric: what `torch_geometric.device("auto")` is."""

import types

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace
from torch_lazuli.libraries.naming import named


def teach(module: types.ModuleType) -> None:
    """The function that turns "auto" into a device."""

    @replace(module, "device")
    def device(original, device):
        if device == "auto" and named() is not None:
            return torch.device(TYPE, 0)
        return original(device)
