"""FlexAttention: torch lists the devices that it is for, though its operators run anywhere."""

import types

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace


def teach(module: types.ModuleType) -> None:
    """Adds the device. Its scores are computed in full, as on every device without own code."""

    @replace(module, "_validate_device")
    def validate_device(original, query, key, value) -> None:
        if query.device.type != TYPE:
            original(query, key, value)
