"""torch.distributed.rpc: of a device that it does not know it says that its index is wrong."""

import functools

import torch

from torch_lazuli.devices import TYPE


def refuse_device_maps() -> None:
    """Lets device maps with lazuli raise NotImplementedError, which says what to do."""
    if not torch.distributed.rpc.is_available():
        return
    from torch.distributed.rpc import options

    original = options._to_device_map

    @functools.wraps(original)
    def to_device_map(device_map):
        if any(torch.device(d).type == TYPE for pair in device_map.items() for d in pair):
            raise NotImplementedError(
                "lazuli: RPC sends tensors of the CPU, and maps only CUDA's devices; send "
                "`x.cpu()`, and move what arrives to the device"
            )
        return original(device_map)

    options._to_device_map = to_device_map
