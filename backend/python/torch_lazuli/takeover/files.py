"""Where a checkpoint says that tensors were, and where they are put when it is read.

A file that a taken-over program writes names the devices that the program names. So it can be read
without Lazuli, as eager's.
"""

import functools

import torch

from torch_lazuli.takeover.policy import OWN, mapped, state

_FIRST = 5  # before the places that torch knows
_to_host = torch._C.TensorBase.cpu


def install() -> None:
    """Registers the places with torch.save and torch.load."""
    torch.serialization.register_package(_FIRST, _place_of, _put)
    _take_states_from_the_device()
    _keep_steps_on_the_host()


def _place_of(storage) -> str | None:
    return str(state.shown) if storage.device == OWN else None


def _put(storage, place: str):
    if place.startswith("cuda") and state.cuda:
        return storage.to(device=mapped(place))
    if place == "cpu" and state.cpu:
        return storage.to(device=OWN)
    return None


def _take_states_from_the_device() -> None:
    """A random state that was read from a file may be on the device."""
    original = torch.set_rng_state

    @functools.wraps(original)
    def set_rng_state(new_state):
        original(_to_host(new_state))

    torch.set_rng_state = torch.random.set_rng_state = set_rng_state


def _keep_steps_on_the_host() -> None:
    """Optimizers count their steps there. A counter from a file is on the device; torch moves those
    of fused and capturable optimizers back to it."""
    optimizer = torch.optim.Optimizer
    original = optimizer._process_value_according_to_param_policy

    @functools.wraps(original)
    def process_value(param, value, param_id, param_groups, key=None):
        if key == "step":
            value = _to_host(value)
        return original(param, value, param_id, param_groups, key)

    optimizer._process_value_according_to_param_policy = staticmethod(process_value)
