"""Loading data while the device is torch's default one: `torch.set_default_device("lazuli")`.

Torch's own samplers draw numbers from a generator of the CPU, and say nothing of a device. The
default device is put in there, and the generator does not fit it. It is the same with any device
that is not the CPU.
"""

import functools

import torch
from torch.utils import _device

from torch_lazuli.devices import TYPE


def draw_where_the_generator_is() -> None:
    """Lets a generator say where random numbers are made, if nothing else does.

    In place from the beginning: such a call may be the device's first use.
    """
    original = _device.DeviceContext.__torch_function__

    @functools.wraps(original)
    def torch_function(self, func, types, args=(), kwargs=None):
        generator = kwargs.get("generator") if kwargs else None
        if generator is None or self.device.type != TYPE or generator.device.type == TYPE:
            return original(self, func, types, args, kwargs)
        if func in _device._device_constructors() and kwargs.get("device") is None:
            return func(*args, **kwargs | {"device": generator.device})
        if func is torch.Tensor.random_ and args[0].device.type == TYPE:
            # A loader makes an empty tensor and fills it with a seed for its workers.
            there = torch.empty_like(args[0], device=generator.device)
            return args[0].copy_(func(there, *args[1:], **kwargs))
        return func(*args, **kwargs)

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
