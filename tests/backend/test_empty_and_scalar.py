"""Tensors without elements, and without dimensions."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal, tensor

EMPTY = [(0,), (0, 3), (3, 0), (2, 0, 4)]


@pytest.mark.parametrize("shape", EMPTY)
def test_elementwise_of_nothing(shape):
    def compute(device):
        x = normal(*shape, device=device)
        return x + x, x * 2, x.exp(), x > 0, x.to(torch.int64), x.clone().add_(1), x / 0

    assert_same(compute)


@pytest.mark.parametrize("shape", EMPTY)
def test_sums_of_nothing(shape):
    def compute(device):
        x = normal(*shape, device=device)
        sums = [x.sum(), x.prod(), x.mean(), x.any(), x.all(), x.norm(), x.logsumexp(-1)]
        return sums + [x.sum(d) for d in range(x.dim())] + [x.all(0), x.mean(-1, keepdim=True)]

    assert_same(compute)


@pytest.mark.parametrize("shape", EMPTY)
def test_views_of_nothing(shape):
    def compute(device):
        x = normal(*shape, device=device)
        return x.reshape(-1), x.unsqueeze(0), x.transpose(0, -1), x[..., :0], torch.cat([x, x])

    assert_same(compute)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "argmax", "argmin"])
def test_largest_of_nothing_is_an_error(name):
    assert_same_error(lambda device: getattr(torch, name)(torch.empty(0, 3, device=device), 0))


def test_products_with_nothing():
    def compute(device):
        a, b = normal(0, 3, device=device), normal(3, 4, device=device)
        c = normal(4, 0, device=device)
        return a @ b, b @ c, c @ normal(0, 2, device=device), torch.bmm(a[None], b[None])

    assert_same(compute)


def test_a_linear_layer_of_no_rows():
    def train(device):
        layer = torch.nn.Linear(3, 2).to(device)
        layer(normal(0, 3, device=device)).sum().backward()
        return layer.weight.grad, layer.bias.grad

    assert_same(train)


def test_networks_of_an_empty_batch():
    def compute(device):
        x = normal(0, 4, 6, device=device)
        norm = torch.nn.LayerNorm(6).to(device)
        return norm(x), x.softmax(-1), torch.nn.functional.gelu(x), x.max(2).values

    assert_same(compute)


def test_indexing_with_nothing():
    def compute(device):
        x = normal(4, 3, device=device)
        none = torch.empty(0, dtype=torch.int64, device=device)
        x[none] = 1
        return x[none], x.index_select(0, none), x[x > 100], x[1:1], torch.nonzero(x > 100), x

    assert_same(compute)


def test_zero_dimensions():
    def compute(device):
        x, y = tensor(2.5, device), normal(3, device=device)
        return (
            x + x,
            x * y,
            x.exp(),
            x.sum(),
            x.sum(0),
            x.mean(-1),
            x.max(),
            x.max(0).values,
            x.argmax(),
            x.view(1),
            x.reshape(1, 1),
            x.unsqueeze(0),
            x.expand(2, 3),
            x[None],
            x[...],
            x.softmax(0),
            x.cumsum(0),
            x.sort().values,
            x.clone().add_(1),
            torch.stack([x, x]),
            x.t(),
            x.nonzero(),
            y[1],
            y.dot(y),
            x.squeeze(),
            torch.where(x > 0, y, x),
        )

    assert_same(compute)


def test_writing_to_zero_dimensions():
    def change(device):
        x = normal(3, 4, device=device)
        e = x[1, 2]
        e.fill_(5).mul_(x[0, 0])
        x[2, 3] = e
        e.cumsum_(0)
        return x, e

    assert_same(change)


def test_gradients_of_zero_dimensions():
    def differentiate(device):
        scale = tensor(1.5, device, grad=True)
        x = normal(3, 4, device=device, grad=True)
        ((x * scale).exp() + scale).mean().backward()
        return scale.grad, x.grad

    assert_same(differentiate)


def test_numbers_of_one_element():
    def read(device):
        x = tensor([[3.5]], device)
        flag = tensor(True, device)
        return x.item(), float(x), int(x), bool(x), flag.item(), bool(flag), x.tolist()

    assert_same(read)


def test_one_number_of_many_is_an_error():
    assert_same_error(lambda device: normal(2, device=device).item(), RuntimeError)
    assert_same_error(lambda device: bool(normal(2, device=device)), RuntimeError)
    assert_same_error(lambda device: bool(normal(0, device=device)), RuntimeError)
    assert_same_error(lambda device: float(normal(2, device=device)))
    assert_same_error(lambda device: range(normal(1, device=device)), TypeError)


def test_a_number_as_an_index():
    assert_same(lambda device: list(range(5))[tensor(2, device)])
    assert_same(lambda device: list(range(tensor(3, device))))
