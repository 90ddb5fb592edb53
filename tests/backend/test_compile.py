"""torch.compile with its default backend: the device runs the captured graph, and fuses it."""

import pytest
import torch
from differential import both


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def test_forward_and_backward():
    def train(where):
        model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 2))
        model = model.to(where)
        run = model if where == "cpu" else torch.compile(model, fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            loss = run(torch.randn(3, 6).to(where)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses)

    eager, ours = both(train)
    torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("mode", [None, "reduce-overhead", "max-autotune"])
def test_shapes_that_change(mode):
    run = torch.compile(lambda x: (x * 2).relu().sum(0), mode=mode)
    for n in (3, 5, 9):
        x = torch.randn(n, 4)
        torch.testing.assert_close(run(x.to("lazuli")).cpu(), (x * 2).relu().sum(0))


def test_a_graph_without_inputs():
    run = torch.compile(lambda: torch.arange(5, device="lazuli") * 2, fullgraph=True)
    assert run().tolist() == [0, 2, 4, 6, 8]


def test_graphs_on_the_cpu_stay_inductors(monkeypatch):
    seen = []

    def compile_fx(graph, inputs, **options):
        seen.append(graph)
        return graph.forward

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    run = torch.compile(lambda x: x + 1)
    assert run(torch.ones(2)).tolist() == [2, 2]
    assert len(seen) == 1
    assert run(torch.ones(2, device="lazuli")).tolist() == [2, 2]
    assert len(seen) == 1
