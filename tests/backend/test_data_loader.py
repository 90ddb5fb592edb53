"""DataLoader feeds the device; pinned memory is accepted."""

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, random_split


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


@pytest.fixture
def default_device(device):
    torch.set_default_device(device)
    yield
    torch.set_default_device(None)


def samples():
    """What torch's samplers draw, with a generator of the CPU that is given to them."""
    g = torch.Generator().manual_seed(4)
    batches = [int(y) for _, ys in DataLoader(dataset(), 5, shuffle=True, generator=g) for y in ys]
    halves = [list(half) for half in random_split(range(10), [0.5, 0.5], generator=g)]
    again = list(RandomSampler(range(10), replacement=True, num_samples=40, generator=g))
    return batches, halves, again


def test_torchs_samplers_where_it_is_the_default_device(device):
    expected = samples()
    torch.set_default_device(device)
    try:
        assert samples() == expected
    finally:
        torch.set_default_device(None)


@pytest.mark.usefixtures("default_device")
def test_torchs_samplers_make_generators_where_it_is_the_default_device():
    labels = [int(y) for _, ys in DataLoader(dataset(), 5, shuffle=True) for y in ys]
    assert sorted(labels) == list(range(10))
    halves = random_split(range(10), [0.5, 0.5])
    assert sorted([*halves[0], *halves[1]]) == list(range(10))
    assert set(RandomSampler(range(10), replacement=True, num_samples=40)) <= set(range(10))


@pytest.mark.usefixtures("default_device")
def test_workers_and_pinned_batches_where_it_is_the_default_device(device):
    host = torch.arange(10.0, device="cpu")
    for options in ({"num_workers": 1}, {"pin_memory": True}):
        batches = [x for (x,) in DataLoader(TensorDataset(host), 5, shuffle=True, **options)]
        assert all(x.device.type == "cpu" for x in batches)
        assert torch.cat(batches).sum().item() == 45
    own = torch.Generator(device)
    assert sorted(random_split(range(10), [10, 0], generator=own)[0]) == list(range(10))
