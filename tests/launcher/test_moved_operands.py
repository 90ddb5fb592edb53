"""`move_host_operands`: operators with tensors on the CPU and on the device."""

import pytest
import torch
import torch.nn.functional as F

CALLS = {
    "binary": lambda x, c: x + c,
    "binary, the other way": lambda x, c: c * x,
    "product": lambda x, c: c @ x.t(),
    "list": lambda x, c: torch.cat([x, c]),
    "condition": lambda x, c: torch.where(c > 0, x, 2 * x),
    "loss": lambda x, c: F.mse_loss(x, c),
    "mask": lambda x, c: c[x > 0],
    "indices": lambda x, c: c[(x[:, 0] > 0).long()],
    "embedding": lambda x, c: F.embedding(torch.tensor([1, 0]), x),
    "read": lambda x, c: torch.tensor(torch.equal(x, c)),
}


@pytest.fixture
def moving(device):
    with torch.lazuli.config.patch(move_host_operands=True):
        yield


@pytest.mark.parametrize("name", CALLS)
def test_results_are_eagers(moving, device, name):
    x, c = torch.randn(3, 4), torch.randn(3, 4)
    actual = CALLS[name](x.to(device), c)
    torch.testing.assert_close(actual.cpu(), CALLS[name](x, c))


def test_what_is_written_on_the_host_stays_there(moving, device):
    x, c = torch.randn(3, 4), torch.randn(3, 4)
    expected = c + x
    row = c[0]
    assert c.add_(x.to(device)) is c
    assert torch.equal(c, expected)
    assert torch.equal(row, expected[0])
    out = torch.empty(0)
    assert torch.add(c, x.to(device), out=out) is out
    assert torch.equal(out, c + x)
    assert out.device.type == "cpu"
    c[x.to(device) > 0] = 7.0
    assert (c[x > 0] == 7).all()


def test_gradients_of_the_devices_tensors(moving, device):
    w, c = torch.randn(4, 2), torch.randn(3, 4)
    ours = w.to(device).requires_grad_()
    (c @ ours).tanh().sum().backward()
    w.requires_grad_()
    (c @ w).tanh().sum().backward()
    torch.testing.assert_close(ours.grad.cpu(), w.grad)


def test_unless_set_it_is_eagers_error(device):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.randn(3, device=device) + torch.randn(3)


DIFFERENTIABLE = {
    "product": lambda w, x: w @ x.t(),
    "product, the other way": lambda w, x: x @ w.t(),
    "binary": lambda w, x: w * x + x / w,
    "list": lambda w, x: torch.cat([x, w, x]).sin(),
    "linear": lambda w, x: F.linear(x, w),
    "loss": lambda w, x: F.mse_loss(w, x),
    "condition": lambda w, x: torch.where(x > 0, w, x),
    "both": lambda w, x: (x.clone().requires_grad_() * w).exp(),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_the_hosts_tensors(moving, device, name):
    f = DIFFERENTIABLE[name]
    w, x = torch.rand(3, 4) + 1, torch.randn(3, 4)
    expected = w.clone().requires_grad_()
    f(expected, x).pow(2).sum().backward()
    actual = w.clone().requires_grad_()
    for times in (1, 2):  # a second backward adds
        f(actual, x.to(device)).pow(2).sum().backward()
        assert actual.grad.device.type == "cpu"
        torch.testing.assert_close(actual.grad, times * expected.grad, rtol=1e-4, atol=1e-5)


def test_gradients_go_on_behind_tensors_of_the_host(moving, device):
    w, x = torch.randn(3, 4), torch.randn(3, 4)
    expected, actual = w.clone().requires_grad_(), w.clone().requires_grad_()
    (expected.sin() * x).sum().backward()
    (actual.sin() * x.to(device)).sum().backward()
    torch.testing.assert_close(actual.grad, expected.grad)


def test_without_gradients_nothing_is_recorded(moving, device):
    w = torch.randn(3, 4, requires_grad=True)
    with torch.no_grad():
        assert not (w * torch.ones(3, 4, device=device)).requires_grad
