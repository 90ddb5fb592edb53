"""`torch.Generator(device="cuda")`."""

import torch

from torch_lazuli.takeover.policy import mapped

_Generator = torch._C.Generator


class _Kind(type(_Generator)):
    """Torch's generators are generators too. (Since 2.15 its class has a metaclass.)"""

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, _Generator)

    def __subclasscheck__(cls, other) -> bool:
        return issubclass(other, _Generator)


class Generator(_Generator, metaclass=_Kind):
    __doc__ = _Generator.__doc__

    def __new__(cls, device="cpu"):
        # Numbers for programs that name no device are drawn on the host (draws.py).
        named = torch.device(device)
        return super().__new__(cls, device=named if named.type == "cpu" else mapped(named))

    def set_state(self, new_state):
        """Takes a state that was read from a file too: it may be on the device."""
        return super().set_state(torch._C.TensorBase.cpu(new_state))


def install() -> None:
    """Puts the class in place."""
    Generator.__module__, Generator.__qualname__ = "torch", "Generator"
    torch.Generator = Generator
