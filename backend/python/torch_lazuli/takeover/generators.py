"""`torch.Generator(device="cuda")`."""

import torch

from torch_lazuli.takeover.policy import mapped

_Generator = torch._C.Generator


class _Kind(type):
    """Generators that torch makes are generators too."""

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, _Generator)

    def __subclasscheck__(cls, other) -> bool:
        return issubclass(other, _Generator)


class Generator(metaclass=_Kind):
    __doc__ = _Generator.__doc__

    def __new__(cls, device="cpu"):
        # Numbers for programs that name no device are drawn on the host (draws.py).
        named = torch.device(device)
        return _Generator(device=named if named.type == "cpu" else mapped(named))


def install() -> None:
    """Puts the class in place."""
    Generator.__module__, Generator.__qualname__ = "torch", "Generator"
    torch.Generator = Generator
