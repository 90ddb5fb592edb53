"""Adaptive pooling by whole factors and the windows of images are recorded; the rest is eager's."""

import pytest
import torch
from differential import assert_same, normal
from torch.nn.functional import adaptive_avg_pool2d, fold, max_pool2d, relu, unfold

FORMATS = (torch.contiguous_format, torch.channels_last)


def step(device, shape, function, layout=torch.contiguous_format, dtype=torch.float32):
    x = normal(*shape, device=device, dtype=dtype)
    if len(shape) == 4:
        x = x.contiguous(memory_format=layout)
    x.requires_grad_()
    y = function(x)
    weights = torch.arange(y.numel(), device=device).to(dtype).view(y.shape)
    (y * weights).mean().backward()
    assert x.grad.is_contiguous(memory_format=layout)
    return y, y.stride(), x.grad


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("size", [1, (4, 3), (8, 12), (None, 6)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_pooling_by_whole_factors(size, layout, dtype, counters):
    tolerance = {"rtol": 1.6e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {}
    pool = lambda x: adaptive_avg_pool2d(x, size)  # noqa: E731
    assert_same(lambda device: step(device, (2, 3, 8, 12), pool, layout, dtype), **tolerance)
    assert counters()["external_calls"] == {}


def test_pooling_of_one_image(counters):
    assert_same(lambda device: step(device, (3, 8, 12), lambda x: adaptive_avg_pool2d(x, (4, 6))))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize("size", [(3, 12), (8, 5), (16, 12)], ids=str)
def test_pooling_by_other_factors(size, counters):
    assert_same(lambda device: step(device, (2, 3, 8, 12), lambda x: adaptive_avg_pool2d(x, size)))
    assert counters()["external_calls"]


def test_second_derivative_of_adaptive_pooling():
    def run(device):
        x = normal(2, 3, 6, 4, device=device, grad=True)
        (g,) = torch.autograd.grad(adaptive_avg_pool2d(x, (3, 2)).exp().sum(), x, create_graph=True)
        g.square().sum().backward()
        return g, x.grad

    assert_same(run)


WINDOWS = [
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": 1, "stride": 2},
    {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (0, 1), "stride": (2, 3)},
    {"kernel_size": (8, 1), "dilation": (1, 5)},
]


@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (3, 8, 9)], ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_of_images(window, shape, counters):
    assert_same(lambda device: step(device, shape, lambda x: unfold(x, **window)))
    assert "aten::im2col" not in counters()["external_calls"]


def test_windows_are_put_together_again():
    def run(device):
        x = normal(2, 3, 8, 8, device=device, dtype=torch.float64, grad=True)
        y = fold(unfold(x, 3, padding=1), (8, 8), 3, padding=1)
        y.square().sum().backward()
        return y, x.grad

    assert_same(run)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: unfold(x, 9),
        lambda x: unfold(x, 0),
        lambda x: unfold(x, 2, dilation=0),
        lambda x: unfold(x, 2, padding=-1),
        lambda x: unfold(x, 2, stride=0),
        lambda x: adaptive_avg_pool2d(x, (2, -1)),
        lambda x: adaptive_avg_pool2d(x[0, 0], 2),
    ],
)
def test_errors_are_eagers(wrong):
    messages = []
    for device in ("cpu", "lazuli"):
        with pytest.raises(RuntimeError) as raised:
            wrong(torch.ones(1, 2, 4, 4, device=device))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


MAX_WINDOWS = [
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 3, "padding": 1, "dilation": 2},
    {"kernel_size": (1, 3)},
]


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("window", MAX_WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("channels", [5, 70])
def test_largest_without_positions(channels, dtype, window, layout, planned_at_once):
    """No derivative is wanted, so nobody reads where the largest were; with nan and infinity."""

    def run(device):
        x = normal(2, channels, 9, 11, device=device, dtype=dtype).contiguous(memory_format=layout)
        x[0, :, 2, 3], x[1, 1, 4, 5], x[1, :, :3] = torch.inf, torch.nan, -torch.inf
        return relu(max_pool2d(x * 1, **window))

    assert_same(run, rtol=0, atol=0)
