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


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_attention_in_training(backend):
    def train(where):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        layer = layer.to(where)
        run = layer if where == "cpu" else torch.compile(layer, backend=backend)
        run(torch.randn(2, 5, 8).to(where)).square().sum().backward()
        return [p.grad for p in layer.parameters()]

    eager, ours = both(train)
    for e, o in zip(eager, ours, strict=True):
        torch.testing.assert_close(o.cpu(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_autograd(backend):
    def train(where):
        model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU()).to(where)
        x = torch.randn(3, 6).to(where)
        if where == "cpu":
            model(x).square().sum().backward()
        else:
            compiler = torch.compile(backend=backend)
            with torch._dynamo.compiled_autograd._enable(compiler):
                model(x).square().sum().backward()
        return [p.grad for p in model.parameters()]

    eager, ours = both(train)
    for e, o in zip(eager, ours, strict=True):
        torch.testing.assert_close(o.cpu(), e)


def test_code_ahead_of_time_says_what_to_do(device, tmp_path):
    model = torch.nn.Linear(3, 2).to(device)
    program = torch.export.export(model, (torch.ones(1, 3, device=device),))
    with pytest.raises(NotImplementedError, match="export the model on the CPU"):
        torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "m.pt2"))


def causal(batch, head, query, key):
    return query >= key


def farther_is_less(score, batch, head, query, key):
    return score - (query - key) * 0.1


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention(device, compiled):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (torch.randn(1, 2, 128, 8, requires_grad=True) for _ in range(3))
    i = torch.arange(128)
    scores = (q @ k.mT) / 8**0.5 - (i[:, None] - i) * 0.1
    expected = scores.masked_fill(i[:, None] < i, -torch.inf).softmax(-1) @ v
    expected.square().sum().backward()
    ours = [t.detach().to(device).requires_grad_() for t in (q, k, v)]
    mask = create_block_mask(causal, None, None, 128, 128, device=device)
    run = torch.compile(flex_attention) if compiled else flex_attention
    out = run(*ours, score_mod=farther_is_less, block_mask=mask)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)
    out.square().sum().backward()
    for t, e in zip(ours, (q, k, v), strict=True):
        torch.testing.assert_close(t.grad.cpu(), e.grad, rtol=1e-3, atol=1e-4)
