"""Which of torch.distributed's backends serve the device: those that serve what backs it."""

import torch

from torch_lazuli.devices import TYPE


def register() -> None:
    """Makes `init_process_group("gloo")`, and any other backend by its name, serve the device."""
    if not torch.distributed.is_available():
        return
    Backend = torch.distributed.Backend
    for name in (Backend.GLOO, Backend.NCCL, Backend.UCC, Backend.MPI):
        Backend.backend_capability[name].append(TYPE)
    Backend.default_device_backend_map.setdefault(TYPE, Backend.GLOO)
