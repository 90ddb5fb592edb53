"""What tests of torch.compile's backend `lazuli` have in common."""

import pytest
import torch


def compiled(function, **options):
    return torch.compile(function, backend="lazuli", fullgraph=True, **options)


def check(function, *calls, where="lazuli", **options):
    """Compares results with eager's for each list of arguments, and what was written to them."""
    run = compiled(function, **options)
    for arguments in calls:
        eager = [a.clone() for a in arguments]
        ours = [a.clone().to(where) for a in arguments]
        expected, got = function(*eager), run(*ours)
        torch.testing.assert_close(on_cpu(got), expected)
        torch.testing.assert_close(on_cpu(ours), eager)


def on_cpu(value):
    return torch.utils._pytree.tree_map(lambda t: t.cpu() if torch.is_tensor(t) else t, value)


@pytest.fixture(autouse=True)
def fresh():
    """What Dynamo compiled in other tests is forgotten."""
    torch._dynamo.reset()


def graphs_of(kind, monkeypatch) -> list:
    """A list that grows with each graph of this kind that the device gets."""
    found = []
    begin = kind.__init__

    def noted(self, *arguments, **named):
        begin(self, *arguments, **named)
        found.append(self)

    monkeypatch.setattr(kind, "__init__", noted)
    return found


def calls(graph) -> list[torch.fx.Node]:
    """What a graph that the device got calls."""
    return [node for node in graph._module.graph.nodes if node.op == "call_function"]
