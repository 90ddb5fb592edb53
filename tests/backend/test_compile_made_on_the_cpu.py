"""What a compiled graph makes on the CPU from nothing, and moves: it is made on the device."""

import pytest
import torch
from compiled_graphs import calls, check, fresh, graphs_of  # noqa: F401
from torch_lazuli.compiler.captured import Captured


@pytest.fixture
def graphs(monkeypatch):
    return graphs_of(Captured, monkeypatch)


MADE = {
    "steps": lambda x: x * torch.arange(x.shape[-1]).to(x.device),
    "zeros": lambda x: x + torch.zeros(x.shape).to(x.device),
    "several ops": lambda x: x + ((torch.arange(4.0) * 2).sin()[None] + 1).to(x.device),
    "another type": lambda x: x + torch.full((4,), 3).to(x),
    "a number": lambda x: x * (torch.ones(()) * 3),
    "a mask": lambda x: x.masked_fill(torch.ones(4, 4).tril()[0].bool().to(x.device), 2.0),
    "read twice": lambda x: (lambda i: x[:, i.to(x.device)] + i.double().to(x.device))(
        torch.arange(3) + 1
    ),
}


@pytest.mark.parametrize("function", MADE.values(), ids=MADE)
def test_made_on_the_device(function, graphs):
    check(function, *[(torch.randn(3, 4),) for _ in range(3)])
    assert [g.recorded for g in graphs] == [1]
    devices = {node.meta["val"].device.type for node in calls(graphs[0])}
    assert devices == {"lazuli"}


LEFT = {
    "random": lambda x: x + torch.rand(4).to(x.device) * 0,
    "returned": lambda x: (lambda i: (x + i.to(x.device), i))(torch.arange(4)),
}


@pytest.mark.parametrize("function", LEFT.values(), ids=LEFT)
def test_left_on_the_cpu(function, graphs):
    check(function, *[(torch.randn(3, 4),) for _ in range(3)])
    assert [g.recorded for g in graphs] == [0]


def test_another_input_of_the_cpu_is_read_each_time(graphs):
    run = torch.compile(lambda x, y: x + (torch.arange(4) * y).to(x.device), backend="lazuli")
    x = torch.randn(3, 4)
    for y in (torch.tensor(2), torch.tensor(3)):
        torch.testing.assert_close(run(x.to("lazuli"), y).cpu(), x + torch.arange(4) * y)
    assert [g.recorded for g in graphs] == [0]
