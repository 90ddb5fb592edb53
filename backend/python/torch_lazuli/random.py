"""The device's default random generator."""

import os
from collections.abc import Iterable

import torch

from torch_lazuli.devices import device_count, device_index
from torch_lazuli.operators import ops

_initial_seed = torch.default_generator.initial_seed()


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device. `torch.manual_seed` calls this too."""
    global _initial_seed
    seed = int(seed)
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"lazuli: a seed has 64 bits, which {seed} does not fit in")
    # torch takes seeds of 64 bits with either sign; the op's argument is signed.
    _initial_seed = seed & 0xFFFF_FFFF_FFFF_FFFF
    ops._manual_seed(_initial_seed - (1 << 64) if _initial_seed >= 1 << 63 else _initial_seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    manual_seed(seed)


def seed() -> None:
    """Seeds the generator of the current device with a number nobody knows."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


def seed_all() -> None:
    """Seeds the generators of all devices with a number nobody knows."""
    seed()


def initial_seed() -> int:
    """The seed that was set last."""
    return _initial_seed


def device_generators() -> tuple[torch.Generator, ...]:
    """The generators that draw where none is given, one for each device."""
    return tuple(ops._default_generator(index) for index in range(device_count()))


def get_rng_state(device: torch.device | str | int | None = None) -> torch.Tensor:
    """The generator's state, as a byte tensor on the CPU."""
    return ops._get_rng_state(device_index(device))


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of the generators of all devices."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: torch.device | str | int | None = None) -> None:
    """Sets the generator's state to one that `get_rng_state` gave.

    Raises RuntimeError if it is none.
    """
    ops._set_rng_state(new_state, device_index(device))


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of the generators of all devices, in their order."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
