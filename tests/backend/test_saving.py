"""Saving and loading: torch.save in both formats, shared views, map_location, pickle."""

import io
import pickle

import pytest
import torch
from differential import assert_same, normal


def reload(thing, zip=True, **options):
    file = io.BytesIO()
    torch.save(thing, file, _use_new_zipfile_serialization=zip)
    file.seek(0)
    return torch.load(file, **options)


ZIP = pytest.mark.parametrize("zip", [True, False])


@ZIP
def test_views_share_their_storage_again(zip):
    def change(device):
        x = normal(3, 4, device=device) * 2
        loaded = reload({"a": x, "v": x[1:, ::2]}, zip)
        loaded["a"].add_(1)
        a, v = loaded["a"], loaded["v"]
        return loaded, a.untyped_storage()._cdata == v.untyped_storage()._cdata

    assert_same(change)


@ZIP
def test_the_device_is_kept(zip):
    x = normal(3, device="lazuli")
    assert reload(x, zip).device == x.device


@ZIP
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float64, torch.uint8]
)
def test_dtypes(zip, dtype):
    assert_same(lambda device: reload((normal(3, 4, device=device) * 3).to(dtype), zip))


def test_from_the_device_to_the_host_and_back():
    x = torch.randn(3, 4)
    on_host = reload(x.to("lazuli"), map_location="cpu")
    assert on_host.device.type == "cpu"
    assert torch.equal(on_host, x)
    on_device = reload(x, map_location="lazuli")
    assert on_device.device.type == "lazuli"
    assert torch.equal(on_device.cpu(), x)
    again = reload(x.to("lazuli"), map_location=lambda storage, location: storage)
    assert torch.equal(again.cpu(), x)


@ZIP
def test_layouts(zip):
    def change(device):
        x = normal(2, 3, 4, 5, device=device)
        return reload([x.t() if x.dim() == 2 else x.permute(3, 1, 0, 2), x[:, 1]], zip)

    assert_same(change)


def test_a_parameter_and_its_gradient():
    def change(device):
        p = torch.nn.Parameter(normal(3, device=device))
        return reload(p, weights_only=False)

    assert_same(change)


def test_state_dicts_of_model_and_optimizer():
    def train(device):
        torch.manual_seed(0)

        def make():
            net = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 4)).to(device)
            return net, torch.optim.AdamW(net.parameters(), lr=0.1)

        def step(net, optimizer):
            optimizer.zero_grad()
            net(normal(8, 3, device=device)).pow(2).mean().backward()
            optimizer.step()

        net, optimizer = make()
        step(net, optimizer)
        twin, twin_optimizer = make()
        twin.load_state_dict(reload(net.state_dict()))
        twin_optimizer.load_state_dict(reload(optimizer.state_dict()))
        torch.manual_seed(1)
        step(net, optimizer)
        torch.manual_seed(1)
        step(twin, twin_optimizer)
        for a, b in zip(net.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.cpu(), b.cpu())
        return twin.state_dict(), twin_optimizer.state_dict()

    assert_same(train, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickle(protocol):
    def change(device):
        x = normal(3, 4, device=device) + 1
        return pickle.loads(pickle.dumps([x, x[1:]], protocol))

    assert_same(change)


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    x = torch.randn(3, 4)
    safetensors.save_file({"x": x.to("lazuli")}, tmp_path / "x.safetensors")
    assert torch.equal(safetensors.load_file(tmp_path / "x.safetensors")["x"], x)


def test_a_storage():
    def change(device):
        x = normal(4, device=device)
        storage = x.untyped_storage()
        clone = storage.clone()
        x.zero_()
        return torch.tensor(list(clone.cpu().tolist())), storage.nbytes(), len(storage)

    assert_same(change)


def test_bytes_of_a_storage():
    def change(device):
        x = torch.arange(6, dtype=torch.uint8, device=device)
        storage = x.untyped_storage()
        storage[1] = 9
        storage[3:5] = 7
        return storage[0], storage[1], storage.tolist(), x

    assert_same(change)


def test_a_part_of_a_storage_is_an_error():
    storage = torch.arange(6, dtype=torch.uint8, device="lazuli").untyped_storage()
    with pytest.raises(NotImplementedError, match="take a part of a tensor"):
        storage[1:3]
    assert storage.cpu()[1:3].tolist() == [1, 2]
