"""Calls that cannot walk memory backwards: a flipped operand is copied for them first."""

import pytest
import torch
from torch.nn import functional

READERS = {
    "external": lambda x: torch.sort(x, 1)[0],
    "matmul": lambda x: x @ torch.ones(4, 5, device=x.device),
    "transposed matmul": lambda x: x.t() @ torch.ones(3, 2, device=x.device),
    "cumsum": lambda x: x.cumsum(0),
    "pool": lambda x: functional.max_pool2d(x[None, None], 2),
    "convolution": lambda x: functional.conv1d(x[None], torch.ones(2, 3, 2, device=x.device)),
    "scatter": lambda x: torch.zeros_like(x).index_add(
        0, torch.tensor([2, 0, 0], device=x.device), x
    ),
}


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("read", list(READERS.values()), ids=list(READERS))
def test_a_flipped_operand(read, dims):
    x = torch.arange(12.0).view(3, 4)
    assert torch.equal(read(x.to("lazuli").flip(dims)).cpu(), read(x.flip(dims)))
