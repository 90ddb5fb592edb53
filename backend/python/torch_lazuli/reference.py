"""Reference mode, LAZULI_KERNELS=eager: torch's Python decides as it does for the backing device.

Kernels are the plugin's business (backend/reference/reference.cpp). Which of them an optimizer
calls, one for each parameter or one for a list, torch decides by the device's name.
"""

import functools

import torch
from torch.optim import optimizer, swa_utils

from torch_lazuli.devices import TYPE


def is_on() -> bool:
    """Whether every kernel is torch's own: decided when the plugin is loaded."""
    from torch_lazuli.config import config

    return config.kernels == "eager"


def step_optimizers_as_eager() -> None:
    """Takes operators over lists where torch takes them for the backing device: not on the CPU."""
    original = optimizer._get_foreach_kernels_supported_devices

    @functools.wraps(original)
    def supported_devices() -> list[str]:
        backing = torch.ops.lazuli._backing().type
        return [name for name in original() if name != TYPE or backing in original()]

    for module in (optimizer, swa_utils):
        module._get_foreach_kernels_supported_devices = supported_devices
