"""tril and triu are masks: kernels of the device's own, for every type and diagonal."""

import pytest
import torch
from differential import assert_same, normal


@pytest.mark.parametrize("diagonal", [-7, -1, 0, 2, 9])
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles(name, diagonal, counters):
    def run(device):
        x = normal(2, 4, 6, device=device, grad=True)
        y = getattr(x, name)(diagonal)
        y.square().sum().backward()
        i = (x.detach() * 10).long()
        return y, x.grad, getattr(i.t() if i.dim() == 2 else i.mT, name)(diagonal)

    assert_same(run)
    assert counters()["external_calls"] == {}


def test_in_place_through_a_view():
    def run(device):
        x = torch.ones(5, 6, dtype=torch.bool, device=device)
        x[1:, ::2].tril_(-1)
        x.t().triu_(1)
        return x

    assert_same(run)
