"""The program's own `torch.autograd.Function`s, which may compute with numpy.

They give tensors on the host where the program means cpu. Autograd asks that a gradient is where
its tensor is, so what requires grad is moved here, where autograd sees it.
"""

import functools
import inspect
from collections.abc import Sequence

import torch
from torch.autograd import function
from torch.utils.checkpoint import CheckpointFunction

from torch_lazuli.devices import TYPE
from torch_lazuli.takeover.policy import OWN, is_program, state

_device_of = torch._C.TensorBase.device.__get__
_to = torch._C.TensorBase.to


def install() -> None:
    """Puts the two functions in place by which torch calls forward and backward."""
    _move_outputs()
    _move_gradients()


def _move_outputs() -> None:
    # A class method of Python's, or since 2.15 of C's: bound anew to each class.
    original = inspect.getattr_static(function.Function, "apply")

    @functools.wraps(function.Function.apply)
    def apply(cls, *args, **kwargs):
        result = original.__get__(None, cls)(*args, **kwargs)
        devices = [_device_of(arg) if isinstance(arg, torch.Tensor) else None for arg in args]
        if not state.cpu or OWN not in devices or not _runs_program(cls):
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        moved = tuple(_moved_output(output, args, devices) for output in outputs)
        return moved if isinstance(result, tuple) else moved[0]

    function.Function.apply = classmethod(apply)


def _runs_program(cls: type) -> bool:
    """Torch's own functions give what torch asks of them."""
    return is_program(cls.__module__) or cls is CheckpointFunction


def _moved_output(output, args: Sequence, devices: Sequence):
    """An output that requires grad, on lazuli; the arguments' devices are kept for its backward."""
    if not isinstance(output, torch.Tensor) or output.grad_fn is None:
        return output
    if any(output is arg for arg in args):
        return output
    if isinstance(output.grad_fn, function.BackwardCFunction):
        output.grad_fn._lazuli_devices = devices
    return output if _device_of(output).type == TYPE else _to(output, OWN)


def _move_gradients() -> None:
    original = function.BackwardCFunction.apply

    @functools.wraps(original)
    def apply(self, *gradients):
        result = original(self, *gradients)
        devices = getattr(self, "_lazuli_devices", None)
        if devices is None:
            return result
        results = result if isinstance(result, tuple) else (result,)
        moved = tuple(map(_moved_gradient, results, devices)) + results[len(devices) :]
        return moved if isinstance(result, tuple) else moved[0]

    function.BackwardCFunction.apply = apply


def _moved_gradient(gradient, device: torch.device | None):
    is_elsewhere = isinstance(gradient, torch.Tensor) and _device_of(gradient) != device
    return _to(gradient, device) if is_elsewhere and device is not None else gradient
