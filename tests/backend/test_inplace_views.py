"""Writing in place through views: every tensor of the alias group sees it."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal, tensor

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


WRITES_INTO_LEAVES = {
    "leaf": lambda x: x.mul_(2),
    "view of a leaf": lambda x: x[1:].mul_(2),
    "view of a view": lambda x: x.view(-1)[::2].add_(1),
    "one of several views": lambda x: x.unbind(0)[0].add_(1),
    "assignment": lambda x: x.__setitem__(0, 1.0),
    "copy": lambda x: x[1:].copy_(torch.ones(3, 4, device=x.device)),
    "view made without gradients": lambda x: without_gradients(x).mul_(2),
    "out": lambda x: torch.sin(x.detach(), out=x),
}


def without_gradients(x):
    with torch.no_grad():
        return x.view(-1)


@pytest.mark.parametrize("write", WRITES_INTO_LEAVES)
def test_writing_into_leaves_is_an_error(write):
    from differential import assert_same_error

    assert_same_error(
        lambda device: WRITES_INTO_LEAVES[write](normal(4, 4, device=device, grad=True)),
        RuntimeError,
    )


def test_writing_into_leaves_without_gradients():
    def differentiate(device):
        x = normal(4, 4, device=device, grad=True)
        with torch.no_grad():
            x[1:].mul_(2)
            x.view(-1)[0] = 3
        (x * x).sum().backward()
        with torch.no_grad():
            x -= 0.1 * x.grad
        return x, x.grad, x._version

    assert_same(differentiate)


WRITES_INTO_RESULTS = {
    "view": lambda y, x: y[1:3].mul_(x[1:3]),
    "view of a view": lambda y, x: y.view(-1)[4:].view(3, 4).t()[1].add_(x[0, :3]),
    "expanded operand": lambda y, x: y[:, ::2].copy_(x[:, :1]),
    "a leaf's values": lambda y, x: y.diagonal().copy_(x[0].exp()),
    "twice": lambda y, x: y[0].add_(x[1]).mul_(x[2]),
    "masked": lambda y, x: y[1:].masked_fill_(x[1:] > 0, 2.0),
    "index": lambda y, x: y.__setitem__(torch.tensor([0, 2], device=x.device), x[:2] * 2),
    "constant": lambda y, x: y[0].zero_(),
    "detached": lambda y, x: y[0].copy_(x[0].detach()),
}


@pytest.mark.parametrize("write", WRITES_INTO_RESULTS)
@pytest.mark.parametrize("before", [False, True])
def test_gradients_after_writing_into_views_of_results(write, before):
    """What was computed from the result before it was written to has the old values."""

    def differentiate(device):
        x = normal(4, 4, device=device, grad=True)
        y = x.contiguous() * 3
        early = (y + 1).sum() if before else 0
        view = y[0]
        WRITES_INTO_RESULTS[write](y, x)
        ((y * 2).sin().sum() + view.exp().sum() + early).backward()
        return y, view, x.grad

    assert_same(differentiate)


def test_writing_into_a_view_that_backward_needs():
    from differential import assert_same_error

    def fail(device):
        x = normal(4, 4, device=device, grad=True)
        y = x * 2
        z = (y.exp() * y[1]).sum()
        y.view(-1)[3:5].mul_(2)
        z.backward()

    assert_same_error(fail, RuntimeError)


@pytest.mark.parametrize("name", ["set_", "asinh_", "nextafter_", "add_", "copy_", "zero_"])
@pytest.mark.parametrize("split", [torch.unbind, lambda x: torch.split(x, 1)])
def test_a_write_to_one_of_many_views(device, name, split):
    """The error names the node that gave the views."""

    def run(device):
        one = split(torch.ones(2, device=device, requires_grad=True))[1]
        other = () if name in ("asinh_", "zero_") else (torch.zeros_like(one),)
        getattr(one, name)(*other)

    assert "is a view and is being modified inplace" in assert_same_error(run, RuntimeError)
