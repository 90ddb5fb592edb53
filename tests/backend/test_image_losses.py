"""The loss of an image of classes is the device's own, and its derivatives."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

SHAPES = {"rows": (3, 5, 7), "images": (2, 5, 4, 6), "volumes": (2, 3, 2, 3, 4)}


def loss_of(device, shape=SHAPES["images"], dtype=torch.float32, layout=None, **options):
    x = normal(*shape, device=device).to(dtype)
    if layout:
        x = x.to(memory_format=layout)
    x.requires_grad_()
    numbers = torch.arange(x.numel() // shape[1]) * 7 % shape[1]
    target = numbers.view(shape[0], *shape[2:]).to(device)
    options = {k: v.to(device) if torch.is_tensor(v) else v for k, v in options.items()}
    loss = torch.nn.functional.cross_entropy(x, target, **options)
    (gradient,) = torch.autograd.grad((loss * loss).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), x)
    return loss, gradient, second


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", SHAPES)
def test_reductions(shape, reduction, counters):
    assert_same(lambda device: loss_of(device, SHAPES[shape], torch.float64, reduction=reduction))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize(
    "options",
    [
        {"ignore_index": 2},
        {"weight": torch.tensor([0.5, 1, 0, 2, 3])},
        {"weight": torch.tensor([0.5, 1, 0, 2, 3]), "ignore_index": 1, "reduction": "sum"},
        {"label_smoothing": 0.1},
        {"layout": torch.channels_last},
    ],
    ids=str,
)
def test_options(options, counters):
    assert_same(lambda device: loss_of(device, **options))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_other_types(dtype, counters):
    def losses(device):
        x, target = normal(2, 5, 4, 6, device=device).to(dtype), torch.ones(2, 4, 6).long()
        return torch.nn.functional.cross_entropy(x, target.to(device), reduction="none")

    assert_same(losses)
    assert counters()["external_calls"] == {}


def test_nothing_that_counts():
    assert_same(lambda device: loss_of(device, (1, 1, 2, 2), ignore_index=0)[0])


def test_a_class_out_of_range(device):
    x, target = normal(1, 3, 2, 2, device=device), torch.tensor([[[0, 1], [3, 2]]])
    loss = torch.nn.functional.nll_loss(x, target.to(device))
    with pytest.raises(IndexError, match="Target is out of bounds"):
        loss.cpu()


def test_other_sizes_are_eagers_error():
    def compute(device):
        x, target = normal(1, 3, 2, 2, device=device), torch.zeros(1, 2, 3, dtype=torch.long)
        return torch.nn.functional.nll_loss(x, target.to(device))

    assert_same_error(compute)
