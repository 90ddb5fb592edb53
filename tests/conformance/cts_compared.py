"""The device cpu for TorchCTS, under a name and a type that it does not know.

On cpu it compares nothing; so it compares cpu like any other device.
"""

import importlib
import inspect
import sys
import types

import torch

CPU = sys.intern("cpu")


class Name(str):
    """A device's name: not `cpu`, whichever way it is asked."""

    def __eq__(self, other):
        return other != "cpu" and str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


class Type(str):
    """A device's type: not the `cpu` that a test names, and yet the type of its tensors.

    TorchCTS asks for `cpu` to leave out a comparison, and for tensors' types to see that none is
    somewhere else. A name in a source is interned, and what torch answers is not.
    """

    def __eq__(self, other):
        return other is not CPU and str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

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


def install(conftest, modules):
    """Makes the device of a session, which TorchCTS keeps in globals, one that is compared.

    Its helpers ask for the device's type before they compare, and so do some modules of tests.
    """
    conftest._DEVICE_NAME = Name("cpu")
    helpers = importlib.import_module("torchcts.generated.coverage_helpers")
    for module in {helpers, *modules}:
        if "torch.device(device).type" in inspect.getsource(module):
            module.torch = Torch()
