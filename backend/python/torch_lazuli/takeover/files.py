"""Where a checkpoint says that tensors were, and where they are put when it is read.

A file that a taken-over program writes names the devices that the program names. So it can be read
without Lazuli, as eager's.
"""

import functools

import torch

from torch_lazuli.takeover.policy import OWN, mapped, state

_FIRST = 5  # before the places that torch knows
_NUMBER = 8  # bytes; counters of optimizers stay on the host, where torch reads them


def install() -> None:
    """Registers the places with torch.save and torch.load."""
    torch.serialization.register_package(_FIRST, _place_of, _put)
    _take_states_from_the_device()


def _place_of(storage) -> str | None:
    return str(state.shown) if storage.device == OWN else None


def _put(storage, place: str):
    if place.startswith("cuda") and state.cuda:
        return storage.to(device=mapped(place))
    if place == "cpu" and state.cpu and storage.nbytes() > _NUMBER:
        return storage.to(device=OWN)
    return None


def _take_states_from_the_device() -> None:
    """A random state that was read from a file may be on the device."""
    original = torch.set_rng_state

    @functools.wraps(original)
    def set_rng_state(new_state):
        original(torch._C.TensorBase.cpu(new_state))

    torch.set_rng_state = torch.random.set_rng_state = set_rng_state
