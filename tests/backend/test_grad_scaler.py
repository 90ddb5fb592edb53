"""torch.amp.GradScaler: scaling, unscaling, skipped steps and the growth of the scale."""

import math

import pytest
import torch
from differential import assert_same, normal


@pytest.mark.parametrize("foreach", [False, True])
def test_training_with_a_skipped_step(foreach):
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=foreach)
        scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
        seen = []
        for step in range(6):
            optimizer.zero_grad()
            loss = net(normal(3, 4, device=device)).pow(2).mean()
            if step == 3:
                loss = loss * math.inf
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append((scaler.get_scale(), net.weight.detach().clone()))
        return seen

    assert_same(train)


def test_unscale_then_clip():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device)
        scaler.scale(net(normal(3, 4, device=device)).pow(2).mean()).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        return norm, list(net.parameters()), scaler.state_dict()

    assert_same(train, rtol=1e-4, atol=1e-5)


def test_state_dict():
    scaler = torch.amp.GradScaler("lazuli", init_scale=8.0)
    scaler.scale(torch.ones(1, device="lazuli"))
    twin = torch.amp.GradScaler("lazuli")
    twin.load_state_dict(scaler.state_dict())
    assert twin.get_scale() == 8.0


def test_disabled():
    scaler = torch.amp.GradScaler("lazuli", enabled=False)
    x = torch.ones(1, device="lazuli")
    assert scaler.scale(x) is x
