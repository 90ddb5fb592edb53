"""`detach` shares the storage; `clone` and `contiguous` copy, and keep or change the layout."""

import pytest
import torch
from differential import assert_same, normal


def test_detach_shares():
    def change(device):
        x = normal(5, device=device, grad=True)
        y = x * 2
        d = y.detach()
        d.add_(1)
        shared = y.untyped_storage()._cdata == d.untyped_storage()._cdata
        return y, d, shared, d.requires_grad, d._is_view(), d._version == y._version

    assert_same(change)


def test_detach_in_place():
    def change(device):
        x = normal(5, device=device, grad=True)
        y = x.exp()
        y.detach_()
        return y, y.grad_fn is None

    assert_same(change)


def test_requires_grad_of_a_detached_tensor():
    def change(device):
        x = normal(5, device=device, grad=True)
        y = x.exp().detach().requires_grad_()
        (y * y).sum().backward()
        return y.grad, x.grad is None

    assert_same(change)


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(1, 3),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "sliced": lambda x: x[:, 1:, ::2],
    "expanded": lambda x: x[:1].expand(3, 3, 4, 5),
    "permuted": lambda x: x.permute(3, 0, 2, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "format", [torch.preserve_format, torch.contiguous_format, torch.channels_last]
)
def test_clone(layout, format):
    def change(device):
        x = LAYOUTS[layout](normal(2, 3, 4, 5, device=device))
        y = x.clone(memory_format=format)
        x.zero_() if layout != "expanded" else None
        return y

    assert_same(change)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("like", [torch.empty_like, torch.zeros_like, torch.rand_like])
def test_like(layout, like):
    def make(device):
        return like(LAYOUTS[layout](normal(2, 3, 4, 5, device=device))) * 0

    if like is torch.empty_like:
        a, b = (like(LAYOUTS[layout](torch.ones(2, 3, 4, 5).to(d))) for d in ("cpu", "lazuli"))
        assert a.stride() == b.stride()
    else:
        assert_same(make)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_to_dtype_keeps_the_layout(layout):
    def convert(device):
        x = LAYOUTS[layout](normal(2, 3, 4, 5, device=device))
        return x.double(), x.to(torch.bfloat16), x.bool(), x.int(), x.to(torch.float32)

    assert_same(convert)


def test_to_without_a_change_is_the_tensor_itself():
    x = torch.ones(3, device="lazuli")
    assert x.to("lazuli") is x
    assert x.to("lazuli", torch.float32) is x
    assert x.to("lazuli:0") is x
    assert x.to("lazuli", copy=True) is not x
    assert x.contiguous() is x


@pytest.mark.parametrize("layout", LAYOUTS)
def test_round_trip_through_the_host(layout):
    x = LAYOUTS[layout](torch.randn(2, 3, 4, 5))
    there = x.to("lazuli")
    back = there.cpu()
    assert torch.equal(back, x)
    if layout not in ("expanded", "sliced"):
        assert there.stride() == x.stride() == back.stride()


def test_copies_between_devices_are_independent():
    x = torch.ones(4)
    y = x.to("lazuli")
    x.zero_()
    z = y.cpu()
    y.fill_(3)
    assert z.tolist() == [1, 1, 1, 1]
    assert y.tolist() == [3, 3, 3, 3]
    z.fill_(5)
    assert y.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("blocking", [True, False])
def test_copy_from_and_to_the_host(blocking):
    x = torch.zeros(3, 4, device="lazuli")
    x.t()[1:3].copy_(torch.arange(6.0).view(2, 3), non_blocking=blocking)
    host = torch.zeros(4, 3)
    host.t().copy_(x, non_blocking=blocking)
    expected = torch.zeros(3, 4)
    expected.t()[1:3].copy_(torch.arange(6.0).view(2, 3))
    assert torch.equal(host.t(), expected)


@pytest.mark.parametrize("source", [torch.int64, torch.float64, torch.bfloat16, torch.bool])
def test_copy_converts(source):
    def change(device):
        x = normal(3, 4, device=device)
        x[:2].copy_((normal(2, 4, device=device) * 3).to(source))
        x[2].copy_(torch.tensor([2.7]).to(source))
        return x

    assert_same(change)


def test_a_lazy_clone_is_a_tensor_of_its_own():
    def compute(device):
        x = normal(3, 4, device=device)
        y = torch.ops.aten._lazy_clone(x.t())
        x.add_(1)
        z = torch.ops.aten._lazy_clone(x)
        z.mul_(2)
        leaf = x.clone().requires_grad_()
        torch.ops.aten._lazy_clone(leaf * 2).sum().backward()
        return x, y, z, torch.tensor(y.stride()), leaf.grad

    assert_same(compute)


def test_two_tensors_of_one_value_have_a_gradient_each():
    def run(device):
        gradients = []
        for other in (lambda x: x.detach(), lambda x: x.detach().t(), lambda x: x.clone()):
            for product in (torch.mul, torch.matmul, lambda x, y: torch.addcmul(x, y, x)):
                for turned in (False, True):
                    x = normal(3, 3, device=device, grad=True)
                    pair = (other(x), x) if turned else (x, other(x))
                    product(*pair).sum().backward()
                    gradients.append(x.grad)
        a = normal(3, device=device, grad=True)
        b = a.detach().requires_grad_()
        (a * b * b).sum().backward()
        return *gradients, a.grad, b.grad

    assert_same(run)
