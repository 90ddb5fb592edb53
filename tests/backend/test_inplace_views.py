"""Writing in place through views: every tensor of the alias group sees it."""

import pytest
import torch
from differential import assert_same, normal, tensor

WINDOWS = {
    "rows": lambda x: x[1:3],
    "columns": lambda x: x[:, 2:5],
    "stepped": lambda x: x[::2, 1::3],
    "transposed": lambda x: x.t(),
    "row": lambda x: x[3],
    "element": lambda x: x[2, 3],
    "flat": lambda x: x.view(-1)[5:20],
    "diagonal": lambda x: x.diagonal(),
    "permuted": lambda x: x.view(2, 3, 8).permute(2, 1, 0)[1:4],
    "nothing": lambda x: x[2:2],
    "view of view": lambda x: x[1:].t()[2:6][::2],
}

WRITES = {
    "add_": lambda v: v.add_(1.5),
    "mul_": lambda v: v.mul_(v),
    "zero_": lambda v: v.zero_(),
    "fill_": lambda v: v.fill_(7),
    "copy_": lambda v: v.copy_(torch.arange(v.numel(), device=v.device).view(v.shape)),
    "relu_": lambda v: v.relu_(),
    "clamp_": lambda v: v.clamp_(-0.5, 0.5),
    "cumsum_": lambda v: v.cumsum_(0),
    "masked_fill_": lambda v: v.masked_fill_(v > 0, -1.0),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("window", WINDOWS)
def test_base_and_views_see_the_write(window, write):
    if write == "cumsum_" and window == "element":
        pytest.skip("cumsum_ of 0 dimensions is tested with the zero-dim tensors")

    def change(device):
        x = normal(6, 8, device=device)
        before = x[2:5]
        y = x + 1
        v = WINDOWS[window](x)
        returned = WRITES[write](v)
        assert returned is v
        return x, before, v, y

    assert_same(change)


def test_many_writes_in_one_trace():
    def change(device):
        x = normal(4, 6, device=device)
        x[1:3, ::2].add_(1.0)
        x.view(-1)[5:9].mul_(3.0)
        x.t()[0].zero_()
        snapshot = x.clone()
        x[0, 1:].copy_(x[3, :5])
        return x, snapshot

    assert_same(change)


def test_reading_between_writes():
    def change(device):
        x = normal(4, 6, device=device)
        seen = []
        for i in range(4):
            x[i].add_(float(i))
            seen.append(x.sum().item())
        return x, torch.tensor(seen)

    assert_same(change)


def test_assignment_by_index():
    def change(device):
        x = normal(6, 8, device=device)
        x[1] = 0
        x[:, 2] = x[:, 3]
        x[2:4, 5:] = tensor([1.0, 2.0, 3.0], device)
        x[x > 1] = -1
        x[tensor([0, 5], device)] = 2.5
        x[..., -1] += 10
        x[tensor([1, 1, 2], device), tensor([0, 1, 2], device)] *= 3
        return x

    assert_same(change)


def test_writing_into_overlapping_memory_is_an_error():
    from differential import assert_same_error

    assert_same_error(lambda device: normal(1, 3, device=device).expand(4, 3).add_(1), RuntimeError)


def test_gradient_through_writes_into_views():
    def differentiate(device):
        x = normal(4, 6, device=device, grad=True)
        y = x * 1.0
        y[1:3].mul_(2.0)
        y.view(-1)[::2].add_(1.0)
        y[0] = x[3].sin()
        y.sin().sum().backward()
        return x.grad

    assert_same(differentiate)


def test_the_gradient_function_of_a_view_follows_its_base():
    def differentiate(device):
        x = normal(4, 4, device=device, grad=True)
        base = x.clone()
        view = base[1]
        base.mul_(3)
        kind = type(view.grad_fn).__name__
        view.sum().backward()
        return kind, x.grad

    assert_same(differentiate)
