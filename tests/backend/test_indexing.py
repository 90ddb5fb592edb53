"""Indexing with tensors, masks and numbers; scatter and gather."""

import pytest
import torch
from differential import assert_same, normal, tensor

READS = {
    "one index": lambda x, d: x[tensor([0, 2, 2], d)],
    "negative": lambda x, d: x[tensor([-1, -3], d)],
    "two": lambda x, d: x[tensor([0, 2], d), tensor([1, 3], d)],
    "broadcast": lambda x, d: x[tensor([[0], [2]], d), tensor([1, 3], d)],
    "with slice": lambda x, d: x[:, tensor([1, 1], d), ::2],
    "apart": lambda x, d: x[tensor([0, 1], d), :, tensor([2, 3], d)],
    "mask": lambda x, d: x[x > 0],
    "mask of rows": lambda x, d: x[x[:, 0, 0] > 0],
    "none and ellipsis": lambda x, d: x[None, ..., tensor([0], d)],
    "list": lambda x, d: x[[0, 2]],
    "host index": lambda x, d: x[torch.tensor([0, 2])],
    "int32": lambda x, d: x[tensor([0, 2], d, torch.int32)],
    "numbers": lambda x, d: x[1, -1, 2],
    "zero-dim": lambda x, d: x[tensor(1, d)],
    "gather": lambda x, d: x.gather(1, tensor([[[0, 1, 2, 3, 0]], [[3, 3, 3, 3, 3]]], d)),
    "index_select": lambda x, d: x.index_select(2, tensor([4, 0], d)),
    "take": lambda x, d: x.take(tensor([[0, 59], [7, 7]], d)),
    "take_along_dim": lambda x, d: torch.take_along_dim(x, x.argsort(1), 1),
    "masked_select": lambda x, d: x.masked_select(x < 0),
    "embedding": lambda x, d: torch.nn.functional.embedding(tensor([[0, 2], [3, 0]], d), x[0]),
    "topk": lambda x, d: x.topk(2, 1).values,
    "sort": lambda x, d: x.sort(2, descending=True).values,
    "flip": lambda x, d: x.flip(0, 2),
    "roll": lambda x, d: x.roll((1, 2), (0, 2)),
    "tril": lambda x, d: x.tril(1),
    "repeat": lambda x, d: x.repeat(2, 1, 1),
    "repeat_interleave": lambda x, d: x.repeat_interleave(2, 1),
    "diag": lambda x, d: x[0].diag(),
    "cat": lambda x, d: torch.cat([x, x[:1] * 2, x[:0]], 0),
    "pad": lambda x, d: torch.nn.functional.pad(x, (1, 2, 0, 1), value=3.0),
}


@pytest.mark.parametrize("name", READS)
def test_values_and_gradients(name):
    def compute(device):
        x = normal(3, 4, 5, device=device, grad=True)
        y = READS[name](x, device)
        (y * y).sum().backward()
        return y, x.grad

    assert_same(compute, rtol=1e-5, atol=1e-5)


WRITES = {
    "index": lambda x, y, d: x.__setitem__(tensor([0, 2], d), y[:2]),
    "index number": lambda x, y, d: x.__setitem__(tensor([0, 2], d), 1.5),
    "mask": lambda x, y, d: x.__setitem__(x > 0, -1.0),
    "mask values": lambda x, y, d: x.__setitem__(tensor([True, False, True], d), y[:2]),
    "masked_fill_": lambda x, y, d: x.masked_fill_(x > y, 0.5),
    "masked_scatter_": lambda x, y, d: x.masked_scatter_(x > 0, y),
    "index_add_": lambda x, y, d: x.index_add_(0, tensor([0, 0, 2], d), y, alpha=2),
    "index_copy_": lambda x, y, d: x.index_copy_(1, tensor([3, 0], d), y[:, :2]),
    "index_fill_": lambda x, y, d: x.index_fill_(0, tensor([1], d), 9.0),
    "scatter_": lambda x, y, d: x.scatter_(1, tensor([[0, 1, 2, 3]] * 3, d), y),
    "scatter number": lambda x, y, d: x.scatter_(1, tensor([[0], [1], [2]], d), 7.0),
    "scatter_add_": lambda x, y, d: x.scatter_add_(0, tensor([[0, 0, 1, 2]] * 3, d), y),
    "scatter_reduce_": lambda x, y, d: x.scatter_reduce_(
        0, tensor([[0, 0, 1, 2]] * 3, d), y, "amax"
    ),
    "index_put accumulate": lambda x, y, d: x.index_put_(
        (tensor([0, 0, 1], d),), y, accumulate=True
    ),
    "put_": lambda x, y, d: x.put_(tensor([0, 5], d), y[0, :2]),
    "fill_diagonal_": lambda x, y, d: x.fill_diagonal_(3.0),
    "slice": lambda x, y, d: x[1:].__setitem__((slice(None), slice(0, None, 2)), y[1:, :2]),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name):
    def compute(device):
        x, y = normal(3, 4, device=device), normal(3, 4, device=device)
        view = x[1]
        WRITES[name](x, y, device)
        return x, y, view

    assert_same(compute)


def test_indices_out_of_range():
    from differential import assert_same_error

    assert_same_error(lambda d: normal(3, device=d)[5], IndexError)
    assert_same_error(lambda d: normal(3, device=d).select(0, -4), IndexError)
    assert_same_error(lambda d: normal(3, 3, device=d)[0, 0, 0], IndexError)
    assert_same_error(lambda d: normal(3, 3, device=d).sum(2), IndexError)


def test_flipping_halves_of_complex_numbers(device):
    bits = torch.tensor(
        [[0, 1 - 2**31, 0x7C017E00], [-1, 0x3555B555, 0x00010002]], dtype=torch.int32
    )
    found = bits.to(device).view(torch.complex32).flip(0, 1).view(torch.int32)
    assert torch.equal(found.cpu(), bits.flip(0, 1))
