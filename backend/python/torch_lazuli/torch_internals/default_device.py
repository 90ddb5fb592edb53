"""Loading data while the device is torch's default one: `torch.set_default_device("lazuli")`."""

import functools

import torch

from torch_lazuli.devices import TYPE


def pin_only_what_is_on_the_host() -> None:
    """Lets batches pass that are on the device already: there is nothing to pin."""
    from torch.utils.data._utils import pin_memory as pinning

    original = pinning.pin_memory  # calls itself, by this name, for what is in containers

    @functools.wraps(original)
    def pin_memory(data, device=None):
        if isinstance(data, torch.Tensor) and data.device.type == TYPE:
            return data
        return original(data, device)

    pinning.pin_memory = pin_memory
