"""Operators that torch writes with `out=` are called in the form that returns their results."""

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, normal


def matrix(device):
    return normal(3, 4, 4, device=device) + 4 * torch.eye(4, device=device)


def image(device):
    return normal(2, 3, 6, 5, device=device)


CALLS = {
    "replication_pad2d": lambda d: F.pad(image(d), (1, 2, 0, 1), mode="replicate"),
    "reflection_pad1d": lambda d: F.pad(image(d)[0], (2, 1), mode="reflect"),
    "upsample_bilinear2d": lambda d: F.interpolate(image(d), scale_factor=2, mode="bilinear"),
    "upsample_bicubic2d": lambda d: F.interpolate(image(d), size=(7, 9), mode="bicubic"),
    "adaptive_max_pool2d": lambda d: F.adaptive_max_pool2d(image(d), (2, 3), True),
    "avg_pool3d": lambda d: F.avg_pool3d(image(d)[None], 2),
    "sort.stable": lambda d: image(d).sort(dim=-1, stable=True),
    "topk": lambda d: image(d).topk(2, 1),
    "renorm": lambda d: image(d).renorm(2, 0, 1.0),
    "aminmax": lambda d: torch.aminmax(image(d), dim=1),
    "lgamma": lambda d: torch.lgamma(image(d)),
    "softshrink": lambda d: F.softshrink(image(d)),
    "linalg_inv_ex": lambda d: torch.linalg.inv(matrix(d)),
    "_linalg_det": lambda d: torch.linalg.det(matrix(d)),
    "isin.Tensor_Tensor": lambda d: torch.isin(
        torch.arange(6, device=d), torch.tensor([1, 4], device=d)
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_returned(name, device, counters):
    for _ in range(4):  # what comes again is recorded
        assert_same(CALLS[name])
        CALLS[name](device)
        torch.lazuli.synchronize()
    assert list(counters()["external_calls"]) == [f"aten::{name}"]


@pytest.mark.parametrize(
    "name", ["replication_pad2d", "upsample_bilinear2d", "adaptive_max_pool2d"]
)
def test_memory_order_is_that_of_the_cpu(name):
    def call(device):
        x = image(device).to(memory_format=torch.channels_last)
        y = {
            "replication_pad2d": lambda: F.pad(x, (1, 1, 1, 1), mode="replicate"),
            "upsample_bilinear2d": lambda: F.interpolate(x, scale_factor=2, mode="bilinear"),
            "adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(x, (3, 1)),
        }[name]()
        return y, torch.tensor(y.stride())

    for _ in range(4):
        assert_same(call)
