"""The places where torch's own Python was taught the device."""

import copy
import io
import pickle

import pytest
import torch


def test_printing_copies_once(counters, device):
    x = torch.arange(6.0).reshape(2, 3).to(device) * 1
    assert repr(x) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='lazuli:0')"
    assert sum(counters()["syncs"].values()) == 1


def test_printing_keeps_what_torch_says_of_gradients(device):
    x = torch.ones(1, device=device, requires_grad=True)
    assert repr(x) == "tensor([1.], device='lazuli:0', requires_grad=True)"
    assert "grad_fn=<AddBackward0>" in repr(x + 1)


def test_pickle(device):
    x = torch.arange(6.0).reshape(2, 3).to(device) * 2
    y = pickle.loads(pickle.dumps(x[1:]))
    assert y.device.type == device
    assert torch.equal(y.cpu(), x[1:].cpu())


@pytest.mark.parametrize("zipped", [True, False])
def test_save_and_load_keep_shared_storages(device, zipped):
    x = torch.arange(6.0).reshape(2, 3).to(device) * 2
    file = io.BytesIO()
    torch.save({"whole": x, "row": x[1]}, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["whole"].device.type == device
    loaded["whole"].add_(1)
    assert torch.equal(loaded["row"].cpu(), x[1].cpu() + 1)
    file.seek(0)
    assert torch.load(file, map_location="cpu")["row"].tolist() == [6.0, 8.0, 10.0]


def test_deepcopy(device):
    x = torch.ones(3).to(device) + 1
    y = copy.deepcopy(x)
    x.add_(1)
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_an_optimizer_step_ends_the_trace(counters, device):
    model = torch.nn.Linear(3, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 3).to(device)).sum().backward()
    optimizer.step()
    assert any("step" in reason for reason in counters()["syncs"])
