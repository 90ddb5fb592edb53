"""DLPack: how tensors go to other libraries, and come from them, without a copy.

Torch has no DLPack device for one from outside. Where the CPU is behind the device, other libraries
get the memory that `data_ptr` lends (addresses.py): they see what ops write later, and ops see what
they write.
"""

import functools

import torch

from torch_lazuli.devices import TYPE


def exchange_through_lent_memory() -> None:
    """Gives other libraries tensors of the CPU, and torch tensors of the device."""
    of_tensor, device_of_tensor = torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__

    @functools.wraps(device_of_tensor)
    def dlpack_device(self):
        return (
            (torch.utils.dlpack.DLDeviceType.kDLCPU, 0)
            if _is_ours(self)
            else device_of_tensor(self)
        )

    @functools.wraps(of_tensor)
    def dlpack(self, **options):
        if not _is_ours(self):
            return of_tensor(self, **options)
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        # Only a view of the numbers as they are has an address.
        given = self.resolve_conj().resolve_neg()
        return of_tensor(torch.ops.lazuli._host_view(given), **options)

    original = torch.from_dlpack

    @functools.wraps(original)
    def from_dlpack(ext_tensor, *, device=None, copy=None):
        if not isinstance(ext_tensor, torch.Tensor) or not _is_ours(ext_tensor):
            return original(ext_tensor, device=device, copy=copy)
        if ext_tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if device is None or torch.device(device).type == TYPE:
            return ext_tensor.clone() if copy else ext_tensor.detach()
        if copy is False:
            raise ValueError("cannot move a lazuli tensor to another device without copying")
        return ext_tensor.to(device)

    torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__ = dlpack, dlpack_device
    torch.from_dlpack = torch.utils.dlpack.from_dlpack = from_dlpack


def _is_ours(tensor: torch.Tensor) -> bool:
    return tensor.device.type == TYPE
