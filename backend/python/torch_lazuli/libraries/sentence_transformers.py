"""sentence-transformers: the device of a model for which none is named."""

import types

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace
from torch_lazuli.libraries.naming import named


def teach(module: types.ModuleType) -> None:
    """The function that says which device there is."""

    @replace(module, "get_device_name")
    def get_device_name(original):
        return original() if named() is None else f"{TYPE}:0"
