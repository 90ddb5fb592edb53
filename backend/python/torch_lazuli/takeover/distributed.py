"""Several processes: gloo where a program asks for nccl, and one device for each process."""

import functools
import re

import torch

from torch_lazuli.takeover.messages import say_once
from torch_lazuli.takeover.policy import OWN, state

_NCCL = re.compile(r"\bnccl\b", re.IGNORECASE)


def install() -> None:
    """Puts the functions in place."""
    _use_one_device()
    if torch.distributed.is_available():
        _use_gloo()
        _wrap_on_one_device()


def _use_gloo() -> None:
    distributed = torch.distributed
    init, new_group = distributed.init_process_group, distributed.new_group

    @functools.wraps(init)
    def init_process_group(backend=None, *args, **kwargs):
        kwargs.pop("device_id", None)  # of a device that nccl would prepare
        init(_gloo_for(backend, "gloo"), *args, **kwargs)

    @functools.wraps(new_group)
    def make_group(ranks=None, timeout=None, backend=None, *args, **kwargs):
        kwargs.pop("device_id", None)
        return new_group(ranks, timeout, _gloo_for(backend, None), *args, **kwargs)

    for module in (distributed, distributed.distributed_c10d):
        module.init_process_group, module.new_group = init_process_group, make_group
        module.is_nccl_available = functools.wraps(module.is_nccl_available)(lambda: True)


def _gloo_for(backend: str | None, default: str | None) -> str | None:
    if backend is None:
        return default
    if not state.cuda or not _NCCL.search(backend):
        return backend
    say_once("gloo is used instead of nccl, which serves NVIDIA GPUs only")
    return "gloo"


def _wrap_on_one_device() -> None:
    """The number of a device that a process gives is that of its own: there is one."""
    parallel = torch.nn.parallel.DistributedDataParallel
    original = parallel.__init__

    @functools.wraps(original)
    def init(self, module, device_ids=None, output_device=None, *args, **kwargs):
        first = next(module.parameters(), None)
        if device_ids and first is not None and first.device == OWN:
            device_ids = [OWN]
            output_device = None if output_device is None else OWN
        original(self, module, device_ids, output_device, *args, **kwargs)

    parallel.__init__ = init


def _use_one_device() -> None:
    """DataParallel on one device computes there, without copies."""
    parallel = torch.nn.DataParallel
    original = parallel.__init__

    @functools.wraps(original)
    def init(self, module, device_ids=None, output_device=None, dim=0):
        if device_ids and len(device_ids) > 1:
            say_once(f"DataParallel runs on one device instead of {len(device_ids)}")
            device_ids, output_device = device_ids[:1], None
        original(self, module, device_ids, output_device, dim)

    scatter_to_several = parallel.scatter

    @functools.wraps(scatter_to_several)
    def scatter(self, inputs, kwargs, device_ids):
        if not state.cuda or len(device_ids) > 1:
            return scatter_to_several(self, inputs, kwargs, device_ids)
        from torch.distributed.utils import _to_kwargs

        return _to_kwargs(inputs, kwargs or {}, OWN, False)

    parallel.__init__, parallel.scatter = init, scatter
