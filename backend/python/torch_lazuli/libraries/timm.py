"""timm: the device of each of several processes."""

import types

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace
from torch_lazuli.libraries.naming import is_lazuli


def teach(module: types.ModuleType) -> None:
    """All processes have the one lazuli device there is, and not one of each rank's number."""

    @replace(module, "init_distributed_device_so")
    def init_distributed_device_so(original, device="cuda", *arguments, **options):
        result = original(device, *arguments, **options)
        if is_lazuli(device):
            result["device"] = f"{TYPE}:0"
        return result
