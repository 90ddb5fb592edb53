"""Loading data while the device is torch's default one: `torch.set_default_device("lazuli")`.

Torch's own samplers draw numbers from a generator of the CPU, and say nothing of a device. The
default device is put in there. The numbers are needed on the host only.
"""

import functools
import sys

import torch
from torch.utils import _device

from torch_lazuli.devices import TYPE


def draw_where_the_generator_is() -> None:
    """Lets torch's samplers draw on the CPU what they draw with a generator of the CPU.

    They then need no device, whose first use such a call may be. Programs that draw with such a
    generator get the same numbers, on the default device.
    """
    original = _device.DeviceContext.__torch_function__

    @functools.wraps(original)
    def torch_function(self, func, types, args=(), kwargs=None):
        generator = kwargs.get("generator") if kwargs else None
        is_asked = generator is not None and kwargs.get("device") is None
        if is_asked and self.device.type == TYPE and generator.device.type != TYPE:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            is_sampler = caller.startswith("torch.utils.data.")
            if is_sampler and func in _device._device_constructors():
                kwargs = kwargs | {"device": generator.device}
        return original(self, func, types, args, kwargs)

    _device.DeviceContext.__torch_function__ = torch_function


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
