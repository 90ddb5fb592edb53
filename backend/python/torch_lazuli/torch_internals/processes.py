"""How tensors go to other processes: torch.multiprocessing's table of reducers.

It has entries for the devices that torch knows, and shares memory for all others.
"""

import functools
import io
import multiprocessing.context
import warnings
from multiprocessing.reduction import ForkingPickler

import torch

from torch_lazuli.devices import TYPE


def send_through_the_host() -> None:
    """Lets tensors go through queues and to loaders' workers: a process gets a copy.

    Memory of the device is no other process's, and there may be none yet.
    """
    reductions = torch.multiprocessing.reductions
    original = reductions.reduce_tensor

    @functools.wraps(original)
    def reduce_tensor(tensor):
        fails = tensor.requires_grad and not tensor.is_leaf  # the original says why
        if tensor.device.type != TYPE or fails:
            return original(tensor)
        host = tensor.detach().cpu()
        # A process that starts opens shared memory late, when the copy is not there any more.
        if multiprocessing.context.get_spawning_popen() is not None:
            return _from_bytes, (type(tensor), _bytes(host), tensor.requires_grad)
        return _from_host, (type(tensor), host, tensor.requires_grad)

    reductions.reduce_tensor = reduce_tensor
    reducers = ForkingPickler._extra_reducers
    kinds = [k for k in reducers if isinstance(k, type) and issubclass(k, torch.Tensor)]
    for kind in kinds:
        ForkingPickler.register(kind, reduce_tensor)


def warn_where_memory_is_to_be_shared() -> None:
    """Says what becomes of `share_memory_()`, which torch takes to have been done already."""
    original = torch.UntypedStorage.share_memory_

    @functools.wraps(original)
    def share_memory_(self, *arguments, **named):
        if self.device.type == TYPE:
            warnings.warn(
                "lazuli: other processes get copies of a tensor of the device, and do not see what "
                "this one writes later, nor it what they write; keep a tensor that several "
                "processes write, such as Hogwild's parameters, on the CPU",
                stacklevel=4,
            )
        return original(self, *arguments, **named)

    torch.UntypedStorage.share_memory_ = share_memory_


def _bytes(host: torch.Tensor) -> bytes:
    file = io.BytesIO()
    torch.save(host, file)
    return file.getvalue()


def _from_bytes(kind: type, saved: bytes, requires_grad: bool) -> torch.Tensor:
    return _from_host(kind, torch.load(io.BytesIO(saved)), requires_grad)


def _from_host(kind: type, host: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    tensor = host.to(TYPE)
    if issubclass(kind, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
