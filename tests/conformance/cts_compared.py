"""The device cpu for TorchCTS, under a name and a type that it does not know.

On cpu it compares nothing; so it compares cpu like any other device.
"""

import importlib
import types

import torch


class Name(str):
    """A device's name: not `cpu`, whichever way it is asked."""

    def __eq__(self, other):
        return other != "cpu" and str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


class Type(Name):
    """A device's type: not `cpu`, and yet none that differs from its tensors' type.

    TorchCTS asks `type == "cpu"` for what it leaves out there, and `type != ...` for tensors that
    are somewhere else than they should be.
    """

    __ne__ = str.__ne__
    __hash__ = str.__hash__


class Kind(type):
    def __instancecheck__(cls, one):
        return isinstance(one, torch.device)


class Device(metaclass=Kind):
    """torch.device, but for that name."""

    def __new__(cls, *arguments):
        found = torch.device(*arguments)
        compared = isinstance(arguments[0], Name)
        return types.SimpleNamespace(type=Type(found.type)) if compared else found


class Torch:
    """The module torch, but for its device."""

    device = Device

    def __getattr__(self, name):
        return getattr(torch, name)


def install(conftest):
    """Makes the device of a session, which TorchCTS keeps in globals, one that is compared."""
    conftest._DEVICE_NAME = Name("cpu")
    importlib.import_module("torchcts.generated.coverage_helpers").torch = Torch()
