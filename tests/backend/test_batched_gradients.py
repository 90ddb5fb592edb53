"""Batched gradients: `is_grads_batched`, vectorized jacobians and hessians, vmap over autograd."""

import pytest
import torch
from differential import assert_same, normal
from torch.autograd import functional

VECTORIZE = pytest.mark.parametrize("vectorize", [False, True])


def vector(x):
    """Matrix products, views, reductions, normalization, an operator of torch's own autograd."""
    y = torch.tanh(x @ x.t()[:, :2]) * x[:, :2]
    y = torch.nn.functional.layer_norm(y, (2,)) + x.sum(1, keepdim=True)
    return torch.atan2(y, x[:, 1:3].exp()).reshape(-1)[::2]


def scalar(x):
    return (vector(x) * x.sin().mean()).sum()


def test_is_grads_batched():
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        w = normal(3, device=device, grad=True)
        y = vector(x) * w
        g = normal(5, 3, device=device)
        return torch.autograd.grad(y, [x, w], g, is_grads_batched=True)

    assert_same(differentiate, ignore=("stride",), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.logit(x, 0.2),
        lambda x: torch.special.entr(x).cumprod(0),
        lambda x: torch.nn.functional.multi_margin_loss(x, torch.tensor(1).to(x.device)),
        lambda x: torch.renorm(x.reshape(2, 2), 1, 0, 0.5),
    ],
    ids=["logit", "cumprod", "multi_margin_loss", "renorm"],
)
def test_external_calls_in_torchs_loop_over_the_batch(function):
    """The loop keeps its own arguments on the stack that it calls the operator with."""

    def differentiate(device):
        x = torch.linspace(0.1, 0.9, 4).to(device).requires_grad_()
        y = function(x)
        return torch.autograd.grad(y, x, normal(3, *y.shape, device=device), is_grads_batched=True)

    assert_same(differentiate, ignore=("stride",), rtol=1e-4, atol=1e-5)


def test_one_of_several_gradients_is_batched():
    def differentiate(device):
        x = normal(4, device=device, grad=True)
        a, b = x.sin(), x.exp()
        fixed = normal(4, device=device)
        pull = lambda g: torch.autograd.grad([a, b], x, [g, fixed], retain_graph=True)[0]  # noqa: E731
        return torch.vmap(pull)(normal(3, 4, device=device))

    assert_same(differentiate, ignore=("stride",))


def test_create_graph():
    def differentiate(device):
        x = normal(4, device=device, grad=True)
        y = x.sin() * x
        g = normal(3, 4, device=device)
        (rows,) = torch.autograd.grad(y, x, g, is_grads_batched=True, create_graph=True)
        rows.pow(2).sum().backward()
        return rows, x.grad

    assert_same(differentiate, ignore=("stride",), rtol=1e-4, atol=1e-5)


@VECTORIZE
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian(vectorize, strategy):
    if strategy == "forward-mode" and not vectorize:
        pytest.skip("torch has it vectorized only")

    def differentiate(device):
        x = normal(3, 4, device=device)
        return functional.jacobian(vector, x, vectorize=vectorize, strategy=strategy)

    assert_same(differentiate, ignore=("stride",), rtol=1e-4, atol=1e-5)


@VECTORIZE
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_hessian(vectorize, strategy):
    if strategy == "forward-mode" and not vectorize:
        pytest.skip("torch has it vectorized only")

    def differentiate(device):
        x = normal(3, 4, device=device)
        return functional.hessian(scalar, x, vectorize=vectorize, outer_jacobian_strategy=strategy)

    assert_same(differentiate, ignore=("stride",), rtol=1e-3, atol=1e-4)


@VECTORIZE
def test_jacobian_that_can_be_differentiated(vectorize):
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        rows = functional.jacobian(vector, x, create_graph=True, vectorize=vectorize)
        rows.pow(2).sum().backward()
        return rows, x.grad

    assert_same(differentiate, ignore=("stride",), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_jacobians_of_torch_func(chunk_size):
    def differentiate(device):
        x = normal(3, 4, device=device)
        return (
            torch.func.jacrev(vector, chunk_size=chunk_size)(x),
            torch.func.jacfwd(vector)(x),
            torch.func.hessian(scalar)(x),
            torch.func.jacrev(torch.func.jacrev(scalar))(x),
        )

    assert_same(differentiate, ignore=("stride",), rtol=1e-3, atol=1e-4)


def test_products():
    def differentiate(device):
        x, v = normal(3, 4, device=device), normal(3, 4, device=device)
        w = normal(3, device=device)
        return (
            functional.vjp(vector, x, w),
            functional.jvp(vector, x, v),
            functional.vhp(scalar, x, v),
            functional.hvp(scalar, x, v),
        )

    assert_same(differentiate, ignore=("stride",), rtol=1e-3, atol=1e-4)


def test_vmap_of_vmap_over_backward():
    def differentiate(device):
        x = normal(4, device=device, grad=True)
        y = x.exp().view(2, 2).t() * 2
        pull = lambda g: torch.autograd.grad(y, x, g, retain_graph=True)[0]  # noqa: E731
        return torch.vmap(torch.vmap(pull, in_dims=1))(normal(3, 2, 5, 2, device=device))

    assert_same(differentiate, ignore=("stride",))
