"""Where torch.empty_quantized makes its tensor."""

import functools

import torch

from torch_lazuli.devices import TYPE


def make_beside_their_like() -> None:
    """Makes an empty quantized tensor on the device of the one whose parameters it takes over.

    Torch's Python hands its default device over where none is given, which is the host.
    """
    original = torch.empty_quantized

    @functools.wraps(original)
    def empty_quantized(size, qtensor, *, device=None, **options):
        device = qtensor.device if device is None and qtensor.device.type == TYPE else device
        return original(size, qtensor, device=device, **options)

    torch.empty_quantized = empty_quantized
