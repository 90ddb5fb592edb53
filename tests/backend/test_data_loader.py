"""DataLoader feeds the device; pinned memory is accepted."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def dataset():
    return TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))


def total(loader):
    return sum((x.to("lazuli").sum() + y.to("lazuli")).sum().item() for x, y in loader)


def test_in_this_process():
    assert total(DataLoader(dataset(), batch_size=5)) == 45 + sum(range(20)) * 5


def test_in_worker_processes():
    assert total(DataLoader(dataset(), batch_size=5, num_workers=1)) == 45 + sum(range(20)) * 5


def test_pinned():
    assert total(DataLoader(dataset(), batch_size=5, pin_memory=True)) == 45 + sum(range(20)) * 5


def test_a_data_set_that_lives_on_the_device():
    data = TensorDataset(torch.arange(10.0).to("lazuli"))
    batches = [x for (x,) in DataLoader(data, batch_size=4, shuffle=True)]
    assert all(x.device.type == "lazuli" for x in batches)
    assert torch.cat(batches).sum().item() == 45


def test_pinned_batches_say_so():
    loader = DataLoader(dataset(), batch_size=5, pin_memory=True)
    assert all(t.is_pinned() for batch in loader for t in batch)


def test_pin_memory_of_a_host_tensor():
    x = torch.arange(4.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned[2:].is_pinned()
    assert pinned.tolist() == x.tolist()
    assert (pinned.to("lazuli", non_blocking=True) + 1).sum().item() == 10
    kept = pinned[1:]
    del pinned
    assert kept.is_pinned()
    assert not kept.clone().is_pinned()
