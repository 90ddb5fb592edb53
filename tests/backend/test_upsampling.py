"""Enlarging by the nearest element is the device's own, backward too, whatever the factor."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

IMAGES = {1: (2, 3, 7), 2: (2, 3, 4, 5), 3: (2, 3, 4, 5, 3)}


def resized(
    device, shape=IMAGES[2], dtype=torch.float32, layout=torch.contiguous_format, **options
):
    x = normal(*shape, device=device).to(dtype).to(memory_format=layout).requires_grad_()
    y = torch.nn.functional.interpolate(x, mode="nearest", **options)
    weights = torch.arange(y.numel(), device=device).view(y.shape) % 7
    (y * weights.to(memory_format=layout)).sum().backward()
    return y, x.grad


@pytest.mark.parametrize(
    "options",
    [
        {"scale_factor": 2},
        {"size": (12, 5)},
        {"scale_factor": 1.5},
        {"scale_factor": 1.7},
        {"scale_factor": (2.3, 1)},
        {"scale_factor": 2.3, "recompute_scale_factor": True},
        {"size": (8, 12)},
        {"size": (9, 4)},
        {"size": (4, 11)},
        {"size": 3},
        {"size": 1},
        {"scale_factor": 0.4},
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_images(options, layout, counters):
    assert_same(lambda device: resized(device, layout=layout, **options))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize(
    "options", [{"scale_factor": 2}, {"scale_factor": 1.6}, {"size": 4}], ids=str
)
@pytest.mark.parametrize("dims", [1, 3])
def test_other_dimensions(dims, options, counters):
    assert_same(lambda device: resized(device, IMAGES[dims], **options))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize("factor", [1.15, 1.3, 2.05, 2.3])
@pytest.mark.parametrize(
    ("dims", "channels", "layout"),
    [
        (1, 3, torch.contiguous_format),
        (2, 3, torch.contiguous_format),
        (2, 3, torch.channels_last),
        (3, 3, torch.contiguous_format),
        (3, 3, torch.channels_last_3d),
        (3, 6, torch.contiguous_format),
        (3, 6, torch.channels_last_3d),
    ],
    ids=str,
)
def test_sizes_that_stay_or_double_by_another_factor(dims, channels, layout, factor):
    """Torch's kernels differ in whether they go by the sizes or by the factor."""
    shape = (2, channels, *[3] * dims)
    assert_same(lambda device: resized(device, shape, layout=layout, scale_factor=factor))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_other_types(dtype, counters):
    assert_same(lambda device: resized(device, dtype=dtype, size=(7, 9)))
    assert counters()["external_calls"] == {}


def resized_row(x, large):
    x = x.clone().requires_grad_()
    y = torch.nn.functional.interpolate(x, size=large)
    y.backward(torch.arange(1.0, large + 1).to(x.device).view(1, 1, -1))
    return y.detach().cpu(), x.grad.cpu()


@pytest.mark.parametrize("small", [3, 7, 10, 19])
def test_every_size_up_to_forty(small, device):
    """Where a product of float32 is next to a whole number its rounding decides."""
    x = torch.arange(float(small)).view(1, 1, -1)
    for large in range(1, 41):
        expected, actual = (resized_row(x.to(where), large) for where in ("cpu", device))
        assert torch.equal(actual[0], expected[0]), large
        assert torch.equal(actual[1], expected[1]), large


def test_a_scale_that_does_not_fit_the_size():
    """All places from some on show the last element."""

    def run(device):
        x = normal(1, 2, 4, 5, device=device, grad=True)
        y = torch.ops.aten.upsample_nearest2d(x, [12, 5], 1.2, 1.0)
        y.sum().backward()
        return y, x.grad

    assert_same(run)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64], ids=str)
def test_integers(dtype):
    def run(device):
        x = torch.arange(20, device=device).view(1, 1, 4, 5).to(dtype)
        return torch.nn.functional.interpolate(x, size=(7, 10))

    (assert_same if dtype == torch.uint8 else assert_same_error)(run)


def test_a_gradient_of_another_size_is_an_error():
    def run(device):
        g = normal(2, 3, 7, 9, device=device)
        torch.ops.aten.upsample_nearest2d_backward(g, [7, 8], [2, 3, 4, 5])

    assert_same_error(run)
