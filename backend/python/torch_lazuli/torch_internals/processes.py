"""How tensors go to other processes: torch.multiprocessing's table of reducers.

It has entries for the devices that torch knows, and shares memory for all others.
"""

import functools
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
        return _from_host, (type(tensor), host, tensor.requires_grad)

    reductions.reduce_tensor = reduce_tensor
    reducers = ForkingPickler._extra_reducers
    kinds = [k for k in reducers if isinstance(k, type) and issubclass(k, torch.Tensor)]
    for kind in kinds:
        ForkingPickler.register(kind, reduce_tensor)


def _from_host(kind: type, host: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    tensor = host.to(TYPE)
    if issubclass(kind, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
