"""Memory of storages, which torch takes to be where it says.

A lazuli storage may have no memory yet: what stands for it in C++ is no address. Torch has hooks
for devices without memory of their own in C++, but its Python reads and writes without them.
"""

import functools

import torch

from torch_lazuli.devices import TYPE


def lend_addresses() -> None:
    """Lets `data_ptr` give an address where the numbers are, for the host to read and write.

    Torch would give what stands for the storage in C++, which is no memory.
    """
    of_tensor, of_storage = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr
    no_dispatch = torch._C._disabled_torch_dispatch_impl

    @functools.wraps(of_tensor)
    def tensor_data_ptr(self):
        # Subclasses that dispatch, and what functorch wraps, have no memory of their own.
        wraps = type(self).__torch_dispatch__ is not no_dispatch or not torch._C._has_storage(self)
        if self.device.type != TYPE or wraps:
            return of_tensor(self)
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
            return torch.ops.lazuli._lend_address(self)

    @functools.wraps(of_storage)
    def storage_data_ptr(self):
        if self.device.type != TYPE:
            return of_storage(self)
        every_byte = torch.empty(0, dtype=torch.uint8, device=self.device)
        return every_byte.set_(self, 0, (self.nbytes(),), (1,)).data_ptr()

    torch.Tensor.data_ptr = tensor_data_ptr
    torch.UntypedStorage.data_ptr = storage_data_ptr


def read_and_write_through_the_host() -> None:
    """Keeps torch from reading a storage's memory directly, which may not exist yet.

    Writing and reading files is behind `pickle` and the older file format of `torch.save`; the
    newer one copies to the host by itself.
    """
    write, read = torch.UntypedStorage._write_file, torch.UntypedStorage._set_from_file

    @functools.wraps(write)
    def write_file(self, *args, **kwargs):
        return write(self.cpu() if self.device.type == TYPE else self, *args, **kwargs)

    @functools.wraps(read)
    def set_from_file(self, *args, **kwargs):
        if self.device.type != TYPE:
            return read(self, *args, **kwargs)
        host = torch.UntypedStorage(self.nbytes())
        read(host, *args, **kwargs)
        self.copy_(host)
        return self

    get = torch.UntypedStorage.__getitem__

    @functools.wraps(get)
    def getitem(self, *args, **kwargs):
        if args and isinstance(args[0], slice) and self.device.type == TYPE:
            raise NotImplementedError(
                "lazuli: a part of a storage would be a window on memory that may not exist yet; "
                "take a part of a tensor, or of the storage's copy on the host"
            )
        return get(self, *args, **kwargs)

    torch.UntypedStorage.__getitem__ = getitem
    torch.UntypedStorage._write_file = write_file
    torch.UntypedStorage._set_from_file = set_from_file
