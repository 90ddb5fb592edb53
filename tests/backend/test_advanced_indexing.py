"""x[i, :, j] with index tensors, read, written and differentiated, over random geometries."""

import math
import random
import re

import pytest
import torch
from differential import assert_same

LAYOUTS = {
    "row-major": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "sliced": lambda x: torch.stack([x, x], -1).flatten(-2)[..., ::2],
    "expanded": lambda x: x[:, :1].expand_as(x),
}


def random_indices(shape, device):
    """An index for some dimensions, broadcasting together; None for the others."""
    entries = [(3,), (2, 3), (2, 1), (1, 3), (1,)]
    indices = [None] * len(shape)
    for dim in random.sample(range(len(shape)), random.randint(1, len(shape))):
        index = torch.randint(-shape[dim], shape[dim], random.choice(entries))
        indices[dim] = index.to(random.choice([torch.int64, torch.int32])).to(device)
    return indices


def seeded(function, seed):
    def run(device):
        random.seed(seed)
        torch.manual_seed(seed)
        shape = [random.randint(1, 5) for _ in range(random.randint(2, 4))]
        layout = LAYOUTS[random.choice(list(LAYOUTS))]
        return function(shape, layout, device)

    return run


@pytest.mark.parametrize("seed", range(40))
def test_reads_and_gradients(seed, counters):
    def read(shape, layout, device):
        x = torch.randn(shape).to(device).requires_grad_()
        y = torch.ops.aten.index.Tensor(layout(x * 2), random_indices(shape, device))
        weight = torch.randn(y.shape).to(device)
        (y.sin() * weight).sum().backward()
        return y, x.grad

    assert_same(seeded(read, seed), rtol=1e-5, atol=1e-5)
    assert not counters()["external_calls"]


def test_dimensions_that_lie_apart_are_not_laid_out_anew(device):
    """Torch's kernels, which run first, would make a window that overlaps itself dense."""
    x = torch.randn(64, 300, 64).to(device).requires_grad_()
    rows, columns = (torch.randint(0, 64, (100,)).to(device) for _ in range(2))
    torch.lazuli.synchronize()
    y = x[rows, :, columns]
    y.sum().backward()
    shapes = re.findall(r"f32\[([\d,]+)\] = ", torch.lazuli.dump())
    assert max(math.prod(map(int, shape.split(","))) for shape in shapes) == x.numel()
    expected = torch.zeros(64, 64, 300)
    expected.index_put_((rows.cpu(), columns.cpu()), torch.ones(300), True)
    assert torch.equal(x.grad.cpu(), expected.permute(0, 2, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("seed", range(8))
def test_reads_of_any_type(seed, dtype):
    def read(shape, layout, device):
        x = torch.randint(0, 2, shape).to(dtype).to(device)
        return torch.ops.aten.index.Tensor(layout(x), random_indices(shape, device))

    assert_same(seeded(read, seed))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_writes(seed, accumulate, counters):
    def write(shape, layout, device):
        x = torch.randint(-9, 9, shape).to(device)
        x = x if layout is LAYOUTS["expanded"] else layout(x)
        view, version = x[:1], x._version
        indices = random_indices(shape, device)
        # One number where the indices may repeat: which of several stays is open.
        spot = torch.ops.aten.index.Tensor(x, indices).shape if accumulate else ()
        torch.ops.aten.index_put_(x, indices, torch.randint(-9, 9, spot).to(device), accumulate)
        return x, view, x._version - version

    assert_same(seeded(write, seed))
    assert not counters()["external_calls"]


MASKS = {
    "all": lambda x: (x > 0,),
    "rows": lambda x: (x[:, 0, 0] > 0,),
    "two dimensions": lambda x: (x[..., 0] > 0,),
    "behind a slice": lambda x: (slice(None), x[0] > 0),
    "the last": lambda x: (..., x[0, 0] > 0),
    "beside an index": lambda x: (x[..., 0] > 0, 1),
    "nothing": lambda x: (x > 100,),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("name", MASKS)
def test_one_value_where_a_mask_is(name, dtype, counters):
    def write(device):
        x = torch.randint(-9, 9, (3, 4, 5)).to(dtype).to(device)
        number, element = x.clone(), x.clone()
        view, version = number[:1], number._version
        mask = MASKS[name](torch.randint(-9, 9, x.shape).to(device))
        number[mask] = 1
        element[mask] = x[1, 2, 3]
        return number, element, view, number._version - version

    assert_same(write)
    assert not counters()["external_calls"]


def test_gradients_of_a_value_where_a_mask_is():
    def write(device):
        x = torch.randn(3, 4).to(device).requires_grad_()
        value = torch.randn(()).to(device).requires_grad_()
        y = x * 2
        y[x > 0] = value
        (y * y).sum().backward()
        return y, x.grad, value.grad

    assert_same(write)


def test_masks_that_do_not_fit_are_eagers_errors():
    def write(x, mask, value):
        x[mask] = value

    for device in ("cpu", "lazuli"):
        x = torch.zeros(3, 4).to(device)
        with pytest.raises(IndexError, match="shape of the mask"):
            write(x, torch.ones(2, dtype=torch.bool).to(device), 1.0)
        with pytest.raises(IndexError, match="too many indices"):
            write(x, (slice(None), torch.ones(3, 4, dtype=torch.bool).to(device)), 1.0)


def test_indices_from_the_host():
    def read(device):
        x = torch.randn(4, 5).to(device)
        x[torch.tensor([1, -1])] = 2.0
        return x[torch.tensor([0, -1]), torch.tensor([[1], [2]])], x[[0, 1], [2, 3]]

    assert_same(read)


def test_what_a_kernel_makes_may_be_an_index():
    def read(device):
        x = torch.randn(4, 5).to(device)
        i = torch.arange(4).to(device)
        return (
            x[i, i + 1],
            x[(i * 2).remainder(4)] + x,
            x[x.argmax(0)],
            x[x.argmax(0), torch.arange(5).to(device)],
        )

    assert_same(read)


def test_what_follows_is_computed_in_the_same_kernel(planned, counters):
    x = torch.randn(8, 6).to("lazuli")
    rows, columns = torch.tensor([1, -2, 3]).to("lazuli"), torch.tensor([0, 5, -1]).to("lazuli")
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    (x.exp()[rows, columns] * 2).tanh().cpu()
    after = counters()
    assert not after["external_calls"]
    assert after["kernels_compiled"] + after["kernels_reused"] == 1


WRITES = {
    "scatter": lambda x, i, y: x.scatter_(1, i, y),
    "scatter part": lambda x, i, y: x.scatter(1, i[:2, :1], y.detach()),
    "scatter number": lambda x, i, y: x.scatter(0, i, 3),
    "scatter number in place": lambda x, i, y: x.scatter_(0, i, 3),
    "scatter_add": lambda x, i, y: x.scatter_add_(0, i, y),
    "index_add": lambda x, i, y: x.index_add(1, i[0], y, alpha=2),
    "index_add_": lambda x, i, y: x.index_add_(1, i[0], y),
    "index_copy": lambda x, i, y: x.index_copy(1, i[0], y),
    "index_copy_": lambda x, i, y: x.index_copy_(1, i[0], y),
    "index_fill": lambda x, i, y: x.index_fill(0, i[0] - 3, 7),
    "index_fill_": lambda x, i, y: x.index_fill_(0, i[0] - 3, 7),
    "flip": lambda x, i, y: x.flip(0, 1),
    "cumsum": lambda x, i, y: x.cumsum(1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16])
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("layout", ["row-major", "transposed"])
def test_one_dimension(name, dtype, layout, counters):
    def write(device):
        x = LAYOUTS[layout](torch.randint(-9, 9, (3, 3)).to(dtype).to(device))
        y = torch.randint(-9, 9, (3, 3)).to(dtype).to(device)
        i = torch.tensor([[2, 0, 1], [1, 2, 0], [0, 1, 2]]).to(device)
        if dtype.is_floating_point:
            x.requires_grad_(), y.requires_grad_()
        result = WRITES[name](x * 1, i, y * 1)
        if not dtype.is_floating_point:
            return result
        (result * result).sum().backward()
        return result, x.grad, y.grad

    assert_same(write)
    assert not counters()["external_calls"]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_vector_norm(order, dtype, counters):
    def norm(device):
        x = (torch.randn(3, 4, 5) * 300).to(dtype).to(device).requires_grad_()
        parts = [
            x.norm(order),
            x.norm(order, 1),
            x.norm(order, (0, 2), keepdim=True),
            x[0, 0, 0].norm(order),
        ]
        sum(p.sum() for p in parts).backward()
        return *parts, x.grad

    assert_same(norm, rtol=2e-3, atol=1e-3)
    assert not counters()["external_calls"]


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3)])
def test_rows_of_numbers(device, shape):
    """A window on a number or a range has memory where somebody reads it by an index."""

    def run(device):
        zero = torch.zeros(1, dtype=torch.int64, device=device)
        full = torch.full(shape, 3.0, device=device)
        counted = torch.arange(6.0, device=device)
        return (
            torch.index_select(full, 0, zero).square(),
            torch.index_select(full[0:1], 0, zero).div_(2),
            torch.index_select(counted[1:4].view(3, 1), 0, zero) + 1,
            torch.index_select(full.expand(2, *shape), 0, zero) * 2,
        )

    assert_same(run)
