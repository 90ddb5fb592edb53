"""Which device torch says is the default one, and old ways to choose it."""

import functools

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.takeover.policy import OWN, mapped, shown, state


def install() -> None:
    """Puts the functions in place."""
    _tell_default()
    _tell_accelerator()
    _number_accelerators()
    _set_by_type()


def _tell_default() -> None:
    original = torch.get_default_device

    @functools.wraps(original)
    def get_default_device():
        own = original()
        return shown() if own.type == TYPE else own

    torch.get_default_device = get_default_device


def _tell_accelerator() -> None:
    original = torch.accelerator.current_accelerator

    @functools.wraps(original)
    def current_accelerator(*args, **kwargs):
        own = original(*args, **kwargs)
        if own is None or own.type != TYPE or not state.cuda:
            return own
        return torch.device("cuda") if shown() != OWN else own

    torch.accelerator.current_accelerator = current_accelerator


def _number_accelerators() -> None:
    """The device that a function of torch.accelerator is given."""
    accelerator = torch.accelerator
    original = accelerator._get_device_index

    @functools.wraps(original)
    def get_device_index(device, optional=False):
        return original(device if isinstance(device, int) else mapped(device), optional)

    accelerator._get_device_index = accelerator.memory._get_device_index = get_device_index


def _set_by_type() -> None:
    """`torch.set_default_tensor_type("torch.cuda.FloatTensor")`."""
    original = torch.set_default_tensor_type
    is_set = False  # the default device, by this

    @functools.wraps(original)
    def set_default_tensor_type(t):
        nonlocal is_set
        name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
        if not name.startswith("torch.cuda.") or not state.cuda:
            original(t)
            if is_set:
                torch.set_default_device(None)
                is_set = False
            return
        original(name.replace("torch.cuda.", "torch."))
        torch.set_default_device(mapped("cuda"))
        is_set = True

    torch.set_default_tensor_type = set_default_tensor_type
