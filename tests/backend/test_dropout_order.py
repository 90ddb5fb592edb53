"""Dropout's results lie in memory as its operand does, as eager's: later views depend on it."""

import pytest
import torch
import torch.nn.functional as F

OPERANDS = {
    "row-major": lambda d: torch.randn(2, 3, 4, 5, device=d),
    "channels-last": lambda d: torch.randn(2, 3, 4, 5, device=d).to(
        memory_format=torch.channels_last
    ),
    "heads": lambda d: torch.randn(2, 7, 3, 4, device=d).transpose(1, 2),
    "reversed": lambda d: torch.randn(4, 3, 2, device=d).permute(2, 1, 0),
    "a window": lambda d: torch.randn(4, 6, device=d)[:, 1:3],
    "expanded": lambda d: torch.randn(3, 1, device=d).expand(3, 4),
    "one channel": lambda d: torch.randn(2, 1, 4, 5, device=d).to(
        memory_format=torch.channels_last
    ),
    "one row": lambda d: torch.randn(1, 5, device=d).t(),
}


@pytest.mark.parametrize("make", OPERANDS.values(), ids=OPERANDS)
def test_results_lie_as_operands(make, device):
    assert F.dropout(make(device), 0.5).stride() == F.dropout(make("cpu"), 0.5).stride()


@pytest.mark.parametrize("make", OPERANDS.values(), ids=OPERANDS)
def test_gradients_are_those_of_what_was_kept(make, device):
    x = make(device).abs().add(1).requires_grad_()
    y = F.dropout(x * 1, 0.25)
    weight = torch.rand(y.shape).to(device)
    (y * weight).sum().backward()
    kept = (y != 0).cpu()
    torch.testing.assert_close(y.detach().cpu(), torch.where(kept, x.detach().cpu() / 0.75, 0))
    torch.testing.assert_close(x.grad.cpu(), torch.where(kept, weight.cpu() / 0.75, 0))


def test_heads_are_joined_after_dropout(device):
    heads = torch.randn(2, 7, 3, 4).to(device).transpose(1, 2)
    assert F.dropout(heads, 0.1).transpose(1, 2).view(2, 7, 12).shape == (2, 7, 12)


def test_images_stay_channels_last(device):
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Dropout(0.1), torch.nn.ReLU())
    net = net.to(memory_format=torch.channels_last).to(device)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last).to(device)
    y = net(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    y.sum().backward()
    assert net[0].weight.grad.isfinite().all()
