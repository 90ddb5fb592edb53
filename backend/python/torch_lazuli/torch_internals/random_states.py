"""Whose random numbers `torch.random.fork_rng` puts back."""

import functools

import torch

from torch_lazuli.devices import TYPE


def fork_those_of_the_devices_named() -> None:
    """Lets devices say themselves of which type they are; before torch 2.13 they would be cuda's.

    torch.distributed.pipelining of torch 2.12 names the devices of its stages, and no type.
    """
    original = torch.random.fork_rng

    @functools.wraps(original)
    def fork_rng(devices=None, *arguments, **named):
        if devices is not None:
            devices = list(devices)
            if any(isinstance(d, torch.device) and d.type == TYPE for d in devices):
                named.setdefault("device_type", TYPE)
        return original(devices, *arguments, **named)

    torch.random.fork_rng = fork_rng
