"""Results have eager's strides for operands that are not contiguous."""

import pytest
import torch
from differential import assert_same, normal

LAYOUTS = {
    "row-major": lambda device: normal(4, 5, device=device),
    "column-major": lambda device: normal(5, 4, device=device).t(),
    "strided": lambda device: normal(8, 10, device=device)[::2, ::2],
    "strided transpose": lambda device: normal(10, 8, device=device)[::2, ::2].t(),
    "expanded row": lambda device: normal(1, 5, device=device).expand(4, 5),
    "expanded column": lambda device: normal(4, 1, device=device).expand(4, 5),
    "offset": lambda device: normal(30, device=device)[7:27].view(4, 5),
}


@pytest.mark.parametrize("a", LAYOUTS)
@pytest.mark.parametrize("b", LAYOUTS)
def test_pairs(a, b):
    def compute(device):
        x, y = LAYOUTS[a](device), LAYOUTS[b](device)
        return x + y, torch.where(x > y, x, 0.0), x.to(torch.float64) * y

    assert_same(compute)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_single(layout):
    def compute(device):
        x = LAYOUTS[layout](device)
        return (
            x.exp(),
            x > 0,
            x.sum(0),
            x.sum(1, keepdim=True),
            x.softmax(0),
            x.cumsum(1),
            x.clone(),
            x.flip(0),
            torch.cat([x, x]),
            torch.stack([x, x], 1),
            x @ normal(5, 3, device=device),
            normal(3, 4, device=device) @ x,
            x.t().reshape(-1),
            x.reshape(2, 10),
            x.flatten(),
        )

    assert_same(compute)


def permuted(device, order):
    return normal(2, 3, 4, 5, device=device).permute(order)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_permutations_of_four_dimensions(order):
    def compute(device):
        x = permuted(device, order)
        y = normal(*x.shape, device=device)
        return x * 2, x + y, y + x, x.sum(2), x.mean((1, 3)), x.softmax(-1), x + y[:, :1]

    assert_same(compute)


def test_in_place_keeps_the_layout():
    def compute(device):
        x = normal(5, 4, device=device).t()
        x.mul_(2).add_(normal(4, 5, device=device))
        return x

    assert_same(compute)


def test_gradients_have_the_layout_of_their_tensors():
    def differentiate(device):
        x = normal(5, 4, device=device).t().requires_grad_()
        w = normal(4, 5, device=device, grad=True)
        (x * w).exp().sum().backward()
        return x.grad, w.grad

    assert_same(differentiate)


def test_is_contiguous_and_friends():
    def describe(device):
        x = normal(2, 3, 4, 5, device=device)
        y = x.permute(0, 3, 1, 2)
        return [
            (t.is_contiguous(), t.is_contiguous(memory_format=torch.channels_last))
            for t in (x, y, x[:1], x[:, :1], y.contiguous(), x[..., :1])
        ]

    assert_same(describe)
