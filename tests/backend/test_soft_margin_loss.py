"""soft_margin_loss is recorded, finite where its exponential is not, and rounded once."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal
from torch.nn.functional import soft_margin_loss


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_large_numbers(dtype, device):
    x = torch.tensor([-200.0, -20.0, -1.0, 0.0, 1.0, 30.0, 300.0], dtype=dtype)
    target = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0], dtype=dtype)
    expected = torch.nn.functional.softplus((-target * x).double())
    slope = -(target.double() * torch.sigmoid((-target * x).double()))
    there = x.to(device).requires_grad_()
    losses = soft_margin_loss(there, target.to(device), reduction="none")
    losses.sum().backward()
    torch.testing.assert_close(losses.detach().cpu(), expected.to(dtype))
    torch.testing.assert_close(there.grad.cpu(), slope.to(dtype))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_loss_and_gradients(reduction):
    def compute(device):
        x, target = normal(3, 4, device=device).requires_grad_(), normal(3, 4, device=device).sign()
        loss = soft_margin_loss(x, target, reduction=reduction)
        loss.backward(torch.full_like(loss, 1.5))
        return loss.detach(), x.grad

    assert_same(compute)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_gradients_are_within_half_a_unit(dtype):
    numbers, targets = (torch.randn(1000) * 4).to(dtype), torch.randn(1000).to(dtype)

    def gradient(device, type):
        x, target = numbers.to(device, type).requires_grad_(), targets.to(device, type)
        soft_margin_loss(x, target, reduction="sum").backward()
        return x.grad.cpu()

    exact = gradient("cpu", torch.float64)
    torch.testing.assert_close(gradient("lazuli", dtype), exact.to(dtype), rtol=0, atol=0)


def test_shapes_that_do_not_fit():
    messages = []
    for device in ("cpu", "lazuli"):
        with pytest.raises(RuntimeError) as raised:
            soft_margin_loss(torch.ones(4, device=device), torch.ones(5, device=device))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("transposed", ["x", "target"])
def test_the_loss_lies_as_its_input_does(transposed, reduction):
    def compute(device):
        given = {name: normal(3, 4, device=device) for name in ("x", "target")}
        given[transposed] = normal(4, 3, device=device).mT
        return soft_margin_loss(given["x"], given["target"].sign(), reduction=reduction)

    assert_same(compute)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_targets_of_another_type(dtype):
    """The loss has its input's type."""

    def compute(device):
        x = normal(3, 4, device=device).requires_grad_()
        loss = soft_margin_loss(x, normal(3, 4, device=device).sign().to(dtype), reduction="none")
        loss.sum().backward()
        return loss, x.grad

    assert_same(compute)


@pytest.mark.parametrize("shape", [(4,), (3, 1), (1,)])
def test_targets_of_other_sizes(shape):
    """They are repeated along the input; the input is not repeated along them."""

    def compute(device, *shapes):
        x, target = (normal(*shape, device=device) for shape in shapes)
        return soft_margin_loss(x, target.sign())

    assert_same(lambda device: compute(device, (3, 4), shape))
    assert_same_error(lambda device: compute(device, shape, (3, 4)), RuntimeError)
