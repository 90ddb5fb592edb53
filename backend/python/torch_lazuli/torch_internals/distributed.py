"""Which of torch.distributed's backends serve the device: those that serve what backs it."""

import functools

import torch

from torch_lazuli.devices import TYPE


def register() -> None:
    """Makes `init_process_group("gloo")`, and any other backend by its name, serve the device.

    Without a name torch takes the accelerator's backend, and that alone. Where lazuli is the
    accelerator it is gloo, which serves the CPU too, and did before lazuli was installed.
    """
    if not torch.distributed.is_available():
        return
    Backend = torch.distributed.Backend
    for name in (Backend.GLOO, Backend.NCCL, Backend.UCC, Backend.MPI):
        Backend.backend_capability[name].append(TYPE)
    Backend.default_device_backend_map.setdefault(TYPE, Backend.GLOO)
    config = torch.distributed.distributed_c10d.BackendConfig
    original = config.__init__

    @functools.wraps(original)
    def choose(self, backend):
        original(self, backend)
        if str(backend) == Backend.UNDEFINED and TYPE in self.device_backend_map:
            self.device_backend_map.setdefault("cpu", Backend(Backend.GLOO))

    config.__init__ = choose
