"""Well-known models under torch.compile(backend="lazuli") train and infer as on cpu."""

import functools

import pytest
import torch
from small_models import MODELS, build, train
from torch_lazuli.compiler.captured import Captured
from torch_lazuli.operators import ops

STEPS = 8


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("where", ["lazuli", ops._backing().type])
@pytest.mark.parametrize("name", MODELS)
def test_losses_follow_cpu(name, where, monkeypatch):
    recorded = []
    record = Captured._record

    def counted(self, *arguments):
        recorded.append(self)
        return record(self, *arguments)

    monkeypatch.setattr(Captured, "_record", counted)
    _, expected = train(name, "cpu", dtype=torch.float64, steps=STEPS)
    compiled = functools.partial(torch.compile, backend="lazuli")
    _, actual = train(name, where, steps=STEPS, compiled=compiled)
    # Torch's convolutions for a GPU round their operands to TF32.
    rtol = 1e-4 if ops._backing().type == "cpu" else 2e-2
    actual, expected = (torch.tensor(x, dtype=torch.float64) for x in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=0)
    if where == "cuda":
        return  # what torch chooses for it, such as attention, may run at once each time
    # A few times at most for each graph: a signature of an external call has to come three times.
    assert recorded or name == "gru"  # Dynamo leaves recurrent layers alone
    assert len(recorded) <= 3 * len({id(graph) for graph in recorded})


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_step_is_one_or_two_syncs(name, counters, device):
    model, batch = build(name, device)
    run = torch.compile(model, backend="lazuli")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        torch.lazuli.reset_metrics()
        optimizer.zero_grad()
        run(**batch).backward()
        optimizer.step()
    assert sum(counters()["syncs"].values()) <= 2, counters()["syncs"]
    called = counters()["external_calls"]
    if ops._backing().type != "cpu":  # there attention is torch's own kernel
        called = [name for name in called if not name.startswith("lazuli::attention")]
    assert not called
