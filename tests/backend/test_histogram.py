"""histc between two given numbers; integers are counted too, as on a GPU."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floating(dtype, counters):
    def run(device):
        x = normal(3, 200, device=device, dtype=dtype)
        x[0, :4] = torch.tensor([-1.0, 1.0, torch.nan, torch.inf])
        return x.histc(7, -1, 1), x.t().histc(4, min=0, max=0.5), torch.histc(x[1] * 0, 3, 0, 1)

    assert_same(run)
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_integers_are_counted(dtype, device, counters):
    x = torch.tensor([0, 3, 3, 1, 9, 3, 2], dtype=dtype)
    found = torch.histc(x.to(device), bins=4, min=0, max=3)
    assert found.dtype == dtype
    torch.testing.assert_close(found.cpu(), x.bincount(minlength=10)[:4].to(dtype))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize(("low", "high"), [(-2, 2), (0, 300)])
def test_bounds_that_the_type_does_not_hold(low, high):
    def run(device):
        x = torch.tensor([255, 0, 1, 2], dtype=torch.uint8, device=device)
        return torch.histc(x, 4, min=low, max=high)

    assert "without overflow" in assert_same_error(run)


def test_the_range_of_the_data():
    assert_same(lambda device: normal(50, device=device).histc(5))
