"""What is mapped: which device a program's device is, and which device a tensor of ours shows it.

The program keeps to the devices that it names. Where torch takes a device, `mapped` makes it
lazuli; `shown` is what a tensor on lazuli says to the program. Torch's own Python is no part of the
program: it makes tensors without a device for work on the host, and has to see lazuli.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.takeover.request import Request

_frame = sys._getframe
_count_modes = torch._C._len_torch_function_stack
_Device = torch.device

OWN = torch.device(TYPE, 0)
CPU = torch.device("cpu")

# The parts of torch whose tensors belong to the program: parameters and their first values.
_OF_THE_PROGRAM = (
    "torch.nn.modules.",
    "torch.nn.init",
    "torch.nn.parameter",
    "torch.distributions.",
)
# Those that compare a tensor's device with one that the program gave, or show it.
_SEE_WHAT_IT_SEES = ("torch._tensor_str", "torch.nn.parallel.data_parallel")


class _HostWork(threading.local):
    """How many works of the host a thread is in: they concern no other thread."""

    depth = 0


class State:
    """What is mapped now."""

    def __init__(self):
        self.cuda = False
        self._cpu = False
        self._until_cuda = False
        self._host_work = _HostWork()
        self._works = 0  # of the host, in all threads
        self._works_lock = threading.Lock()
        self._stays_on_host = False
        self.shown = CPU

    def start(self, request: Request) -> None:
        """Begins to map what is asked for, besides what is mapped already."""
        self.cuda |= request.cuda
        if request.cpu:
            was_asked_for = self._cpu and not self._until_cuda
            self._until_cuda = request.until_cuda and not was_asked_for
        self._cpu |= request.cpu
        if not self._cpu:
            self.shown = cuda_device()

    @property
    def request(self) -> Request:
        """What is mapped, as one request."""
        return Request(self.cuda, self._cpu, self._until_cuda)

    def name_cuda(self) -> None:
        """The program named cuda: from here on it sees this, and its cpu is the host if that was
        not asked for."""
        if self.shown is CPU:
            self.shown = cuda_device()
        if self._until_cuda:
            self._cpu = self._until_cuda = False

    @contextlib.contextmanager
    def on_host(self) -> Iterator[None]:
        """Around work that belongs to the host, such as the making of a batch."""
        self._count_works(1)
        try:
            yield
        finally:
            self._count_works(-1)

    def _count_works(self, change: int) -> None:
        self._host_work.depth += change
        with self._works_lock:
            self._works += change

    def stay_on_host(self) -> None:
        """In a process of a loader, whose work is all the host's."""
        self._stays_on_host = True

    @property
    def cpu(self) -> bool:
        """Whether cpu is mapped, and tensors for which no device is named go to lazuli."""
        if self._works and self._host_work.depth:
            return False
        return self._cpu and not self._stays_on_host


state = State()


def cuda_device() -> torch.device:
    """The cuda device that the program has: one; each process of torchrun its own."""
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % cuda_count())


def cuda_count() -> int:
    """How many cuda devices the program finds: one for each process of torchrun on this host."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


@functools.cache
def is_program(module: str) -> bool:
    """Whether a Python module is the program's, or of the parts of torch that belong to it."""
    if module.startswith(_OF_THE_PROGRAM):
        return True
    return not (module == "torch" or module.startswith(("torch.", "torch_lazuli")))


@functools.cache
def sees_shown(module: str) -> bool:
    """Whether a Python module sees the device that the program named."""
    inside = module == "torch" or module.startswith(("torch.", "torch_lazuli"))
    return not inside or module in _SEE_WHAT_IT_SEES


def module_of(depth: int) -> str:
    """The module of the frame `depth` above the caller's; empty where the stack has ended, as for
    what C calls in a thread of its own."""
    try:
        return _frame(depth + 1).f_globals.get("__name__", "")
    except ValueError:
        return ""


def program_calls(depth: int) -> bool:
    """Whether the frame `depth` above the caller's is the program's, or there is none."""
    # As module_of() does, which would be one more call for each tensor that is made.
    try:
        module = _frame(depth + 1).f_globals.get("__name__", "")
    except ValueError:
        module = ""
    return is_program(module)


def mapped(device: Any, depth: int = 1) -> Any:
    """The device that is meant by `device`, as it is taken by torch; None stays None.

    `depth` is that of the program's frame above the caller's. Raises RuntimeError for the number of
    a cuda device that is not there.
    """
    kind = device.__class__
    if kind is _Device:
        name = _type_of(device)
    elif kind is str:
        name = device.partition(":")[0]
    else:
        return device
    if name == "cuda" and state.cuda:
        _check(device)
        state.name_cuda()
        return OWN
    if name == "cpu" and state.cpu and program_calls(depth + 1):
        return OWN
    return device


@functools.cache  # torch makes a string each time that it is asked
def _type_of(device: torch.device) -> str:
    return device.type


def default_is_ours(depth: int = 1) -> bool:
    """Whether a tensor for which no device is named belongs on lazuli."""
    if not (state.cpu and program_calls(depth + 1)):
        return False
    return not (_count_modes() and _is_default_chosen())


def _is_default_chosen() -> bool:
    """Whether the program is in `with torch.device(...)`, or has set a default device."""
    modes = torch.overrides._get_current_function_mode_stack()
    return any(isinstance(mode, torch.utils._device.DeviceContext) for mode in modes)


@functools.cache
def _check(device: torch.device | str) -> None:
    index = torch.device(device).index
    if index and index >= cuda_count():  # there is always a first one
        raise RuntimeError(
            f"CUDA error: invalid device ordinal: lazuli is one device, and '{device}' is another"
        )


def shown(depth: int = 1) -> torch.device:
    """What a tensor on lazuli says to the frame `depth` above the caller's."""
    return state.shown if sees_shown(module_of(depth + 1)) else OWN
