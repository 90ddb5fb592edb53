"""torch.distributed.rpc: it says of a device that it does not know that its index is wrong."""

import types

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.libraries.imports import replace


def teach(module: types.ModuleType) -> None:
    """Lets device maps with lazuli raise NotImplementedError, which says what to do."""

    @replace(module, "_to_device_map")
    def to_device_map(original, device_map):
        if any(torch.device(d).type == TYPE for pair in device_map.items() for d in pair):
            raise NotImplementedError(
                "lazuli: RPC sends tensors of the CPU, and maps only CUDA's devices; send "
                "`x.cpu()`, and move what arrives to the device"
            )
        return original(device_map)
