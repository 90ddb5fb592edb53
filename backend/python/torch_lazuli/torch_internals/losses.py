"""Which formulas a loss takes: `linear_cross_entropy` in chunks, which torch has since 2.13."""

import functools

import torch

from torch_lazuli.devices import TYPE


def accumulate_as_the_cpu() -> None:
    """Keeps sums of 16-bit numbers in float32 where the CPU is behind the device.

    Torch chooses by the device's name, and for one that it does not know it takes the type of the
    numbers.
    """
    options = getattr(torch.nn, "LinearCrossEntropyOptions", None)
    if options is None or torch.ops.lazuli._backing().type != "cpu":
        return
    original = options._adjust

    @functools.wraps(original)
    def adjust(self, *arguments, device=None, **named):
        if device is not None and device.type == TYPE:
            device = torch.device("cpu")
        return original(self, *arguments, device=device, **named)

    options._adjust = adjust
