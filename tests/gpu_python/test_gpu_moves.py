"""Models that move between the device and the GPU behind it."""

import copy

import torch
from torch import nn


def make() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12, bias=False))
    model[1].weight = model[0].weight
    return model.to("cuda")


def test_a_model_moves_with_its_parameters():
    model = make()
    weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = copy.deepcopy(model)
    model.to("lazuli")
    assert model[0].weight is weight
    assert model[1].weight is weight
    assert weight.device.type == "lazuli"

    ids = torch.arange(12)
    model(ids.to("lazuli")).square().mean().backward()
    optimizer.step()
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    other(ids.to("cuda")).square().mean().backward()
    other_optimizer.step()
    torch.testing.assert_close(weight.cpu(), other[0].weight.cpu())

    model.to("cuda")
    assert model[1].weight is weight
    assert weight.device.type == "cuda"
    torch.testing.assert_close(model(ids.to("cuda")), other(ids.to("cuda")))
