"""Which devices are taken over, as the command line and the environment say it. Needs no torch."""

from __future__ import annotations

import os
from typing import NamedTuple

# Read at the end of `import torch`, so that child processes are taken over like their parent.
VARIABLE = "LAZULI_TAKE_OVER"
# The process that is told at its end if it did not use the cuda device that was taken over.
HINT = "LAZULI_HINT_PROCESS"
TYPES = ("cuda", "cpu")
AUTO = "auto"


def asked() -> str:
    """The devices that the environment asks to be taken over; empty if it asks for nothing."""
    names = os.environ.get(VARIABLE, "")
    return "" if names == "0" else names


class RequestError(ValueError):
    """A device that cannot be taken over."""


class Request(NamedTuple):
    """What is mapped to lazuli.

    `cuda` and `cpu` say whether these devices are; with `cpu`, tensors for which no device is named
    go to lazuli too. `until_cuda`: cpu only as long as the program has not named cuda.
    """

    cuda: bool = True
    cpu: bool = True
    until_cuda: bool = True

    @classmethod
    def parse(cls, names: str, keep: str = "") -> Request:
        """The request that `names` asks for, without the devices in `keep`.

        `names` is "auto" (or "1", as switches are set), or devices: "cuda,cpu".

        Raises RequestError for a device that is neither cuda nor cpu, and if nothing is left.
        """
        auto = names.strip() in ("", "1", AUTO)
        wanted = set(TYPES if auto else _types(names)) - set(_types(keep))
        if not wanted:
            raise RequestError("no device is left to be taken over")
        both = auto and len(wanted) == 2
        return cls(cuda="cuda" in wanted, cpu="cpu" in wanted, until_cuda=both)

    def __str__(self) -> str:
        """What `parse` takes."""
        if self.until_cuda:
            return AUTO
        return ",".join(name for name in TYPES if getattr(self, name))


def _types(names: str) -> list[str]:
    types = [name.strip().partition(":")[0] for name in names.split(",") if name.strip()]
    for name in types:
        if name not in TYPES:
            raise RequestError(f"'{name}' is no device that can be taken over: cuda, cpu")
    return types
