"""Autocast, and the scaling of losses: the types of devices that they take."""

import functools

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.takeover.policy import program_calls, state


def install() -> None:
    """Puts the functions in place."""
    _map_autocast()
    _map_scaler()
    _map_questions()


def _type(name: str, depth: int = 1) -> str:
    if name == "cuda" and state.cuda:
        state.name_cuda()
        return TYPE
    if name == "cpu" and state.cpu and program_calls(depth + 1):
        return TYPE
    return name


def _map_autocast() -> None:
    autocast = torch.amp.autocast_mode.autocast
    original = autocast.__init__

    @functools.wraps(original)
    def init(self, device_type, dtype=None, *args, **kwargs):
        own = _type(device_type) if isinstance(device_type, str) else device_type
        if own is not device_type and dtype is None:
            dtype = torch.get_autocast_dtype(device_type)  # of what the program named
        original(self, own, dtype, *args, **kwargs)

    autocast.__init__ = init


def _map_scaler() -> None:
    scaler = torch.amp.grad_scaler.GradScaler
    original = scaler.__init__

    @functools.wraps(original)
    def init(self, device="cuda", *args, **kwargs):
        own = _type(device) if isinstance(device, str) else device
        original(self, own, *args, **kwargs)

    scaler.__init__ = init


def _map_questions() -> None:
    """Whether autocast is on, and its type. Asked without a device, torch means cuda."""
    is_enabled, dtype_of = torch.is_autocast_enabled, torch.get_autocast_dtype
    set_enabled, set_dtype = torch.set_autocast_enabled, torch.set_autocast_dtype

    def is_cuda(name: object) -> bool:
        return state.cuda and name == "cuda"

    @functools.wraps(is_enabled)
    def is_autocast_enabled(device_type="cuda"):
        return is_enabled(TYPE if is_cuda(device_type) else device_type)

    @functools.wraps(dtype_of)
    def get_autocast_dtype(device_type):
        ours = is_cuda(device_type) and is_enabled(TYPE)
        return dtype_of(TYPE if ours else device_type)

    @functools.wraps(set_enabled)
    def set_autocast_enabled(*arguments, **named):
        if "enabled" in named or len(arguments) == 2:
            device, enabled = (*arguments, *named.values())
            return set_enabled(TYPE if is_cuda(device) else device, enabled)
        return set_enabled(TYPE if state.cuda else "cuda", *arguments)

    @functools.wraps(set_dtype)
    def set_autocast_dtype(device_type, dtype):
        return set_dtype(TYPE if is_cuda(device_type) else device_type, dtype)

    torch.is_autocast_enabled, torch.get_autocast_dtype = is_autocast_enabled, get_autocast_dtype
    torch.set_autocast_enabled, torch.set_autocast_dtype = set_autocast_enabled, set_autocast_dtype
    torch.get_autocast_gpu_dtype = functools.wraps(torch.get_autocast_gpu_dtype)(
        lambda: get_autocast_dtype("cuda")
    )
    torch.set_autocast_gpu_dtype = functools.wraps(torch.set_autocast_gpu_dtype)(
        lambda dtype: set_autocast_dtype("cuda", dtype)
    )
