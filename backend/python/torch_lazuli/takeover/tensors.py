"""Methods of tensors that take a device or tell one, and those that give memory to the host."""

import functools
import sys

import torch
from torch.nn.parameter import UninitializedTensorMixin

from torch_lazuli.devices import TYPE
from torch_lazuli.takeover import policy
from torch_lazuli.takeover.policy import CPU, OWN, mapped, program_calls, shown, state

_Base = torch._C.TensorBase
_device_of = _Base.device.__get__


def install() -> None:
    """Puts the methods in place."""
    _move()
    _tell()
    _name_types()
    _pin()
    _give_to_host()


def _move() -> None:
    to, to_host = torch.Tensor.to, torch.Tensor.cpu

    @functools.wraps(to)
    def to_device(self, *args, **kwargs):
        if not kwargs and len(args) == 1:  # mostly so
            return to(self, mapped(args[0]))
        if args:
            args = (mapped(args[0]), *args[1:])
        elif "device" in kwargs:
            kwargs["device"] = mapped(kwargs["device"])
        return to(self, *args, **kwargs)

    def cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
        if not state.cuda:
            return original_cuda(self, device, non_blocking, memory_format=memory_format)
        device = "cuda" if device is None else device
        device = f"cuda:{device}" if isinstance(device, int) else device
        own = mapped(torch.device(device))
        return to(self, own, non_blocking=non_blocking, memory_format=memory_format)

    @functools.wraps(to_host)
    def cpu(self, *args, **kwargs):
        if state.cpu and _device_of(self).type == TYPE and program_calls(1):
            return self
        return to_host(self, *args, **kwargs)

    original_cuda = torch.Tensor.cuda
    torch.Tensor.to = to_device
    torch.Tensor.cuda = functools.wraps(original_cuda)(cuda)
    torch.Tensor.cpu = cpu
    # What a parameter without a shape may be asked to do.
    UninitializedTensorMixin._allowed_methods += [to_device, torch.Tensor.cuda, cpu]


def _tell() -> None:
    is_cuda, is_cpu = _Base.is_cuda.__get__, _Base.is_cpu.__get__
    get_device = torch.Tensor.get_device

    sees_shown, frame = policy.sees_shown, sys._getframe

    # As shown() does, which would be one more call: models ask for devices in each layer.
    def device(self) -> torch.device:
        own = _device_of(self)
        if own == OWN and sees_shown(frame(1).f_globals.get("__name__", "")):
            return state.shown
        return own

    def tensor_is_cuda(self) -> bool:
        if _device_of(self) == OWN and sees_shown(frame(1).f_globals.get("__name__", "")):
            return state.shown is not CPU
        return is_cuda(self)

    def tensor_is_cpu(self) -> bool:
        if _device_of(self) == OWN and sees_shown(frame(1).f_globals.get("__name__", "")):
            return state.shown is CPU
        return is_cpu(self)

    @functools.wraps(get_device)
    def tensor_get_device(self) -> int:
        if _device_of(self) != OWN:
            return get_device(self)
        seen = shown()
        return -1 if seen is CPU else seen.index

    torch.Tensor.device = property(device, doc=_Base.device.__doc__)
    torch.Tensor.is_cuda = property(tensor_is_cuda, doc=_Base.is_cuda.__doc__)
    torch.Tensor.is_cpu = property(tensor_is_cpu, doc=_Base.is_cpu.__doc__)
    torch.Tensor.get_device = tensor_get_device


def _name_types() -> None:
    """`x.type()` and `x.type("torch.cuda.FloatTensor")`."""
    original = torch.Tensor.type
    ours, cuda = f"torch.{TYPE}.", "torch.cuda."

    @functools.wraps(original)
    def type_(self, dtype=None, *args, **kwargs):
        if dtype is None and "dtype" not in kwargs:
            name = original(self)
            seen = shown().type
            prefix = "torch." if seen == "cpu" else f"torch.{seen}."
            return name.replace(ours, prefix)
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
        if state.cuda and isinstance(name, str) and name.startswith(cuda):
            state.name_cuda()
            dtype = name.replace(cuda, ours)
        return original(self, dtype, *args, **kwargs)

    torch.Tensor.type = type_


def _pin() -> None:
    """Memory of the device needs no pinning; the host's is pinned for the device."""
    pin, is_pinned = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    @functools.wraps(pin)
    def pin_memory(self, device=None):
        return self if _device_of(self).type == TYPE else pin(self)

    @functools.wraps(is_pinned)
    def tensor_is_pinned(self, device=None):
        return is_pinned(self)

    torch.Tensor.pin_memory = pin_memory
    torch.Tensor.is_pinned = tensor_is_pinned


def _give_to_host() -> None:
    """numpy gets a copy on the host. (DLPack shares memory: torch_internals/exchange.py.)"""
    original = torch.Tensor.numpy

    # A copy on the host requires grad as its original does: torch refuses both in the same words.
    @functools.wraps(original)
    def numpy(self, *, force=False):
        host = _Base.cpu(self) if _device_of(self).type == TYPE else self
        return original(host, force=force)

    torch.Tensor.numpy = numpy
