"""Attention in float32, which is computed by a kernel of Lazuli's own on the CPU."""

import functools

import pytest
import torch
from differential import assert_same, normal
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


def known(gradient):
    """Without the strides of dimensions of size 1, which a leaf's gradient takes from the leaf."""
    return gradient.flatten() if 1 in gradient.shape else gradient


def attended(device, heads=3, groups=3, queries=17, keys=17, width=8, mask=None, **options):
    """The result and the operands' gradients; `mask` gives a mask of shape (queries, keys)."""
    q = normal(2, heads, queries, width, device=device, grad=True)
    k, v = (normal(2, groups, keys, width, device=device, grad=True) for _ in range(2))
    m = None if mask is None else mask(queries, keys).to(device)
    y = scaled_dot_product_attention(q, k, v, attn_mask=m, **options)
    (y * normal(*y.shape, device=device)).sum().backward()
    return [y, *(known(x.grad) for x in (q, k, v))]


def additive(queries, keys):
    return torch.randn(queries, keys)


def boolean(queries, keys):
    return torch.rand(queries, keys) > 0.4


def one_row_masked(queries, keys):
    return torch.arange(queries)[:, None].expand(queries, keys) != 3


def by_head(queries, keys):
    return torch.randn(2, 3, queries, keys)


def padding(queries, keys):
    return torch.where(torch.arange(keys) < keys - 5, 0.0, torch.finfo(torch.float32).min)[
        None, None, None
    ]


CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "causal, fewer queries": {"is_causal": True, "queries": 5},
    "causal, more queries": {"is_causal": True, "queries": 40, "keys": 9},
    "scale": {"scale": 0.3},
    "negative scale": {"scale": -0.7},
    "one query": {"queries": 1, "keys": 300},
    "many keys": {"queries": 70, "keys": 700},
    "odd width": {"width": 5},
    "additive": {"mask": additive},
    "boolean": {"mask": boolean},
    "one row masked": {"mask": one_row_masked},
    "by head": {"mask": by_head},
    "padding": {"mask": padding},
    "shared keys": {"heads": 6, "groups": 2, "enable_gqa": True},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values_and_gradients(case):
    assert_same(functools.partial(attended, **case), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_no_external_call(case):
    before = dict(torch.lazuli.metrics()["external_calls"])
    [x.cpu() for x in attended("lazuli", **case)]
    assert dict(torch.lazuli.metrics()["external_calls"]) == before


def test_heads_that_do_not_fit_are_eagers_error():
    for device in ("cpu", "lazuli"):
        q, k = (torch.randn(1, heads, 4, 8, device=device) for heads in (4, 2))
        with pytest.raises(RuntimeError, match="must match"):
            scaled_dot_product_attention(q, k, k).sum().item()


def test_a_masks_gradient():
    def run(device):
        q, k, v = (normal(2, 2, 6, 8, device=device, grad=True) for _ in range(3))
        bias = normal(2, 6, 6, device=device, grad=True)
        scaled_dot_product_attention(q, k, v, attn_mask=bias).square().sum().backward()
        return [x.grad for x in (q, k, v, bias)]

    assert_same(run, rtol=1e-4, atol=1e-5)


def projected(device, length):
    """Queries, keys and values as windows of one product."""
    layer, out = nn.Linear(12, 36), nn.Linear(12, 12)
    layer, out = layer.to(device), out.to(device)
    x = normal(2, length, 12, device=device, grad=True)
    q, k, v = (t.unflatten(-1, (3, 4)).transpose(1, 2) for t in layer(x).chunk(3, -1))
    y = scaled_dot_product_attention(q, k, v)
    out(y.transpose(1, 2).flatten(2)).square().sum().backward()
    return [x.grad, layer.weight.grad, out.weight.grad]


def test_windows_of_one_product_of_many_lengths():
    for length in (*range(5, 60, 6), 5):
        assert_same(functools.partial(projected, length=length), rtol=1e-4, atol=1e-5)


def test_a_growing_cache():
    def run(device):
        keys = normal(1, 2, 1, 8, device=device)
        seen = []
        for _ in range(12):
            q, new = (normal(1, 2, 1, 8, device=device) for _ in range(2))
            keys = torch.cat([keys, new], 2)
            seen.append(scaled_dot_product_attention(q, keys, keys).sum().item())
        return torch.tensor(seen)

    assert_same(run, rtol=1e-4, atol=1e-5)


def test_encoder_layer_in_training():
    def run(device):
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True).to(device)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        losses = []
        for length in (7, 9, 7, 11, 9, 13):
            x = normal(3, length, 16, device=device)
            optimizer.zero_grad()
            loss = layer(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses)

    assert_same(run, rtol=1e-4, atol=1e-5)


def test_second_derivatives_are_refused_as_on_the_cpu():
    for device in ("cpu", "lazuli"):
        q = torch.randn(1, 2, 4, 8, device=device, requires_grad=True)
        y = scaled_dot_product_attention(q, q, q).sum()
        (g,) = torch.autograd.grad(y, q, create_graph=True)
        with pytest.raises(RuntimeError, match="not implemented"):
            g.sum().backward()


def laid_out(device, order, queries=5):
    """Operands whose dimensions lie in memory in this order."""
    back = [order.index(d) for d in range(4)]

    def operand(length):
        shape = [(2, 3, length, 8)[d] for d in order]
        return normal(*shape, device=device).permute(back).detach().requires_grad_()

    parts = [operand(queries), operand(7), operand(7)]
    y = scaled_dot_product_attention(*parts)
    y.sum().backward()
    return [y, *(known(p.grad) for p in parts)]


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3), (2, 0, 1, 3), (0, 1, 3, 2)], ids=str
)
def test_results_lie_as_eagers(order, queries):
    assert_same(functools.partial(laid_out, order=order, queries=queries), rtol=1e-4, atol=1e-5)


def test_results_of_windows_lie_as_eagers():
    def run(device):
        wide = normal(2, 5, 9, 8, device=device).transpose(1, 2)
        q, k, v = wide[:, :3], wide[:, 3:6], wide[:, 6:]
        one = normal(1, 3, 5, 8, device=device).expand(2, 3, 5, 8)
        return scaled_dot_product_attention(q, k, v), scaled_dot_product_attention(one, k, v)

    assert_same(run, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("unplanned", ["always", "never"])
def test_padded_rows_in_parts_with_and_without_plans(unplanned):
    def run(device):
        q, k, v = (normal(2, 3, 9, 8, device=device, grad=True) for _ in range(3))
        mask = one_row_masked(9, 9).to(device)
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        loss = y.square().sum().item()
        with torch.lazuli.config.patch(unplanned=unplanned):
            y.square().sum().backward()
            return [torch.tensor(loss), *(x.grad.cpu() for x in (q, k, v))]

    assert_same(run, rtol=1e-4, atol=1e-5)


def test_rows_masked_by_the_least_float_attend_to_all_keys_alike():
    """Eager's kernel keeps the logarithm of a sum that is lost beside such a mask."""
    least = torch.finfo(torch.float32).min
    parts = [torch.randn(1, 2, 5, 8, requires_grad=True) for _ in range(3)]
    ours = [p.detach().to("lazuli").requires_grad_() for p in parts]
    mask = torch.full((5, 5), least).triu(1)
    mask[2] = least
    y = scaled_dot_product_attention(*ours, attn_mask=mask.to("lazuli"))
    y.square().sum().backward()
    q, k, v = parts
    wanted = ((q @ k.mT) / 8**0.5 + mask).softmax(-1) @ v
    wanted.square().sum().backward()
    torch.testing.assert_close(y.cpu(), wanted, rtol=1e-4, atol=1e-5)
    for a, b in zip(ours, parts, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)


def test_batches_that_differ_are_broadcast_as_eagers():
    def run(device):
        q, k = normal(2, 3, 5, 8, device=device), normal(1, 3, 7, 8, device=device)
        return scaled_dot_product_attention(q, k, k)

    assert_same(run, rtol=1e-4, atol=1e-5)


def test_masks_of_three_dimensions():
    def run(device):
        q, k = normal(2, 3, 5, 8, device=device), normal(2, 3, 7, 8, device=device)
        mask = (torch.rand(3, 5, 7) > 0.3).to(device)
        return scaled_dot_product_attention(q, k, k, attn_mask=mask)

    assert_same(run, rtol=1e-4, atol=1e-5)
