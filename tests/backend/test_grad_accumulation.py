"""Gradients add up in `.grad`, in place or not, as in eager."""

import torch
from differential import assert_same, normal


def test_two_backwards():
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        (x * x).sum().backward()
        first = x.grad
        (x.sin()).sum().backward()
        return x.grad, first, first is x.grad

    assert_same(differentiate)


def test_one_tensor_through_two_paths():
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        y = x * 2
        (y.sin() + y.cos() + y[0] + x).sum().backward()
        return x.grad

    assert_same(differentiate)


def test_a_gradient_that_is_not_contiguous():
    def differentiate(device):
        x = normal(3, 4, device=device).t().requires_grad_()
        (x * 3).sum().backward()
        (x.t().contiguous() * 2).sum().backward()
        return x.grad

    assert_same(differentiate)


def test_expanded_gradients():
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        x.sum().backward()
        x.sum(0).mean().backward()
        return x.grad

    assert_same(differentiate)


def test_set_to_none_and_zero():
    def differentiate(device):
        layer = torch.nn.Linear(3, 2).to(device)
        seen = []
        for to_none in (True, False):
            layer(normal(4, 3, device=device)).sum().backward()
            seen.append(layer.weight.grad.clone())
            layer.zero_grad(set_to_none=to_none)
            seen.append(layer.weight.grad is None)
        return seen

    assert_same(differentiate)


def test_retain_graph():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x.exp().sum()
        y.backward(retain_graph=True)
        y.backward()
        return x.grad

    assert_same(differentiate)


def test_retain_grad_of_a_result():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x.exp()
        y.retain_grad()
        (y * y).sum().backward()
        return x.grad, y.grad

    assert_same(differentiate)


def test_a_gradient_given_to_backward():
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        (x * x).backward(normal(3, 4, device=device))
        return x.grad

    assert_same(differentiate)


def test_micro_batches_give_the_gradient_of_the_batch():
    def differentiate(device):
        layer = torch.nn.Linear(5, 3).to(device)
        data = normal(8, 5, device=device)
        for part in data.chunk(4):
            (layer(part).pow(2).mean() / 4).backward()
        return layer.weight.grad, layer.bias.grad

    assert_same(differentiate)


def test_a_grad_that_is_assigned():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        x.grad = torch.ones(3, device=device)
        (x * 2).sum().backward()
        return x.grad

    assert_same(differentiate)


def test_a_grad_of_the_wrong_device_is_an_error():
    from differential import assert_same_error

    def assign(device):
        x = normal(3, device=device, grad=True)
        x.grad = torch.ones(4, device=device)

    assert_same_error(assign, RuntimeError)
