"""Makes torch know the device: its name, its module `torch.lazuli`, its tensor methods."""

import atexit

import torch

from torch_lazuli import library


def register() -> None:
    """Loads the plugin and registers the device.

    Raises LibraryError.
    """
    path = library.load()
    torch.utils.rename_privateuse1_backend("lazuli")

    from torch_lazuli import device_module, metrics, torch_internals

    torch._register_device_module("lazuli", device_module)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    torch_internals.apply(path)
    # Work that still goes to a GPU must be over before CUDA shuts down.
    atexit.register(torch.ops.lazuli._process_ends)
    metrics.write_at_exit()
