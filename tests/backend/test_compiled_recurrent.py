"""Recurrent networks in graphs of torch.compile and torch.export, with sizes that may be others."""

import pytest
import torch
from torch import nn

NETWORKS = {
    "lstm": lambda: nn.LSTM(6, 8, 2, bidirectional=True),
    "gru": lambda: nn.GRU(6, 8, 2),
    "tanh": lambda: nn.RNN(6, 8),
}


def pair(name: str) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    expected = NETWORKS[name]()
    ours = NETWORKS[name]()
    ours.load_state_dict(expected.state_dict())
    return expected, ours.to("lazuli")


@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_for_any_length(name: str):
    torch._dynamo.reset()
    expected, ours = pair(name)
    compiled = torch.compile(ours, backend="lazuli", dynamic=True)
    for steps in (5, 9):
        x = torch.randn(steps, 3, 6)
        want, got = expected(x)[0], compiled(x.to("lazuli"))[0]
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)
        gradients = [
            torch.autograd.grad(y.square().sum(), list(network.parameters()))
            for y, network in ((want, expected), (got, ours))
        ]
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_exported(name: str):
    expected, ours = pair(name)
    x = torch.randn(5, 3, 6)
    program = torch.export.export(ours, (x.to("lazuli"),))
    got = program.module()(x.to("lazuli"))[0].cpu()
    torch.testing.assert_close(got, expected(x)[0], rtol=1e-4, atol=1e-5)
