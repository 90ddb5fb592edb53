"""backend/python/torch_lazuli/torch_internals/addresses.py"""

import io

import pytest
import torch


def test_a_wrapper_is_known_by_its_dispatch_and_its_storage(device):
    class Subclass(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

    plain = torch._C._disabled_torch_dispatch_impl
    assert torch.Tensor.__torch_dispatch__ is torch.nn.Parameter.__torch_dispatch__ is plain
    assert Subclass.__torch_dispatch__ is not plain
    has_storage = []

    def look(t):
        has_storage.append(torch._C._has_storage(t))
        return t * 2

    look(torch.ones(3, device=device))
    torch.func.vmap(look)(torch.ones(3, device=device))
    assert has_storage == [True, False], (
        "torch._C._has_storage must say that a tensor which functorch wraps has no memory"
    )


@pytest.mark.parametrize("device_of_storage", ["cpu", "lazuli"])
def test_the_older_file_format_writes_and_reads_storages(spy, device, device_of_storage):
    writes = spy(torch.UntypedStorage, "_write_file")
    reads = spy(torch.UntypedStorage, "_set_from_file")
    file = io.BytesIO()
    x = torch.arange(3.0).to(device_of_storage)
    torch.save(x, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert torch.equal(torch.load(file).cpu(), x.cpu())
    assert writes, "torch.save must write a storage by UntypedStorage._write_file"
    assert reads, "torch.load must read a storage by UntypedStorage._set_from_file"


def test_a_part_of_a_storage_is_taken_by_getitem(spy):
    calls = spy(torch.UntypedStorage, "__getitem__")
    part = torch.ones(4, dtype=torch.uint8).untyped_storage()[1:3]
    assert len(calls) == 1
    assert part.nbytes() == 2, "UntypedStorage.__getitem__ must give a window on the memory"
