"""Attention in graphs of torch.compile: one operator, and masks that are constants."""

import pytest
import torch
from compiled_graphs import calls, check, compiled, fresh, graphs_of, on_cpu  # noqa: F401
from torch_lazuli.compiler import masks
from torch_lazuli.compiler.captured import Captured
from torch_lazuli.operators import ops


@pytest.fixture
def graphs(monkeypatch):
    return graphs_of(Captured, monkeypatch)


def attention_over(mask=None, **options):
    def f(q, k, v):
        given = None if mask is None else mask(q.shape[1], k.shape[2]).to(q.device)
        y = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k, v, attn_mask=given, **options
        )
        return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1).sin()

    return f


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True, "scale": 0.3},
        {"mask": lambda n, m: torch.ones(n, m).tril() > 0},
        {"mask": lambda n, m: torch.linspace(-1, 1, m).expand(1, 1, n, m)},
        {"enable_gqa": True},
    ],
    ids=["plain", "causal", "boolean", "additive", "grouped"],
)
def test_attention_stays_one_operator(options, dynamic, graphs):
    f = attention_over(**options)
    run = compiled(f, dynamic=dynamic)
    heads = 2 if "enable_gqa" in options else 4

    def results(function, tensors):
        tensors = [t.requires_grad_() for t in tensors]
        y = function(*tensors)
        return [y.detach(), *torch.autograd.grad(y.cos().sum(), tensors)]

    for n in (5, 7, 9):
        made = [torch.randn(2, n, 4, 8), *(torch.randn(2, heads, n, 8) for _ in range(2))]
        expected = results(f, [t.clone() for t in made])
        got = results(run, [t.to("lazuli") for t in made])
        torch.testing.assert_close(on_cpu(got), expected, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            torch.testing.assert_close(run(*(t.to("lazuli") for t in made)).cpu(), expected[0])
    # A GPU's own kernels take as many heads of keys as of queries.
    if "enable_gqa" not in options or ops._backing().type == "cpu":
        operators = [{str(call.target) for call in calls(graph)} for graph in graphs]
        assert all(any("attention" in name for name in names) for names in operators)
        assert not any(any("softmax" in name for name in names) for names in operators)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("queries", [2, 9])
def test_gradients_of_attention_in_16_bits(dtype, queries):
    made = [torch.randn(2, 3, n, 16).to(dtype) for n in (queries, 9, 9)]

    def results(function, on):
        given = [t.to(on).requires_grad_() for t in made]
        y = function(*given)
        return [y.detach(), *torch.autograd.grad(y.float().cos().sum(), given)]

    attention = torch.nn.functional.scaled_dot_product_attention
    expected, run = results(attention, "cpu"), compiled(attention)
    for _ in range(3):
        torch.testing.assert_close(on_cpu(results(run, "lazuli")), expected, rtol=2e-2, atol=2e-2)


def from_ranges(opens, keys=None, dtype=None):
    """Attention whose mask a model makes of ranges of positions."""

    def f(q, k, v):
        rows = torch.arange(q.shape[2], device=q.device)
        positions = torch.arange(keys or q.shape[2], device=q.device)
        mask = opens(rows[:, None] + 0, positions[None, :])
        if dtype is not None:
            mask = torch.zeros(mask.shape, dtype=dtype, device=q.device).masked_fill(
                ~mask, -torch.inf
            )
        mask = mask.expand(q.shape[0], 1, *mask.shape)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return f


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(
    ("opens", "keys", "dtype", "stays"),
    [
        (lambda i, j: i >= j, None, None, False),
        (lambda i, j: i >= j, None, torch.float32, False),
        (lambda i, j: (i >= 0) & (j >= 0), None, None, False),
        (lambda i, j: (i >= j) & (i - j < 3), None, None, True),
        (lambda i, j: i >= j, 9, None, True),
        (lambda i, j: i > j - 1 - (j == 4).long(), None, None, True),
    ],
    ids=["causal", "causal added", "open", "window", "more keys", "nearly causal"],
)
def test_masks_that_are_constants(opens, keys, dtype, stays, trains, graphs):
    f = from_ranges(opens, keys, dtype)
    run = compiled(f)
    q = torch.randn(2, 2, 7, 8)
    k, v = (torch.randn(2, 2, keys or 7, 8) for _ in range(2))

    def results(function, on):
        given = [t.to(on).requires_grad_(trains) for t in (q, k, v)]
        y = function(*given)
        return [y, *torch.autograd.grad(y.cos().sum(), given)] if trains else [y]

    for _ in range(3):
        torch.testing.assert_close(
            on_cpu(results(run, "lazuli")), results(f, "cpu"), rtol=1e-4, atol=1e-5
        )
    masked = [
        call.args[4 if "backward" in str(call.target) else 3] is not None
        for graph in graphs
        for call in calls(graph)
        if "attention" in str(call.target)
    ]
    assert masked == [stays] * (2 if trains else 1)


def test_a_mask_that_each_layer_makes_is_computed_once(monkeypatch):
    computed = []
    meaning = masks._meaning
    monkeypatch.setattr(masks, "_meaning", lambda nodes: computed.append(1) or meaning(nodes))
    layer = from_ranges(lambda i, j: i >= j, dtype=torch.float32)

    def f(q, k, v):
        return layer(layer(q, k, v), k, v)

    check(f, [torch.randn(1, 2, 7, 8) for _ in range(3)])
    assert len(computed) == 1


def test_masks_that_differ_in_a_number_are_not_taken_for_each_other():
    def f(q):
        for window in (2, 4, 9):
            q = from_ranges(lambda i, j, w=window: (i >= j) & (i - j < w))(q, q, q)
        return q

    check(f, [torch.randn(1, 2, 7, 8)])


def test_a_mask_that_data_decide_stays():
    def f(q, mask):
        opens = torch.arange(5, device=q.device)[:, None] >= torch.arange(5, device=q.device)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=opens & mask)

    mask = torch.ones(5, 5, dtype=torch.bool)
    other = torch.rand(5, 5) > 0.5
    other.fill_diagonal_(True)
    q = torch.randn(1, 2, 5, 8)
    check(f, (q, mask), (q, other), (q, mask))


def test_attention_is_taken_apart_in_graphs_of_others():
    from torch._dynamo.testing import AotEagerAndRecordGraphs

    graphs = AotEagerAndRecordGraphs()
    q = torch.randn(2, 4, 5, 8).to("lazuli")
    run = torch.compile(torch.nn.functional.scaled_dot_product_attention, backend=graphs)
    compiled(torch.nn.functional.scaled_dot_product_attention)(q, q, q)
    run(q, q, q)
    names = {str(n.target) for n in graphs.fw_graphs[0].graph.nodes}
    assert not any("overrideable" in name for name in names), names
