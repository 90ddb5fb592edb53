"""torch.func: grad, vjp, jvp, jacobians, functional_call, functionalize."""

import torch
from differential import assert_same, normal


def scalar(x):
    return (x.sin() * x * x).sum()


def test_grad():
    assert_same(lambda d: torch.func.grad(scalar)(normal(5, device=d)))


def test_grad_and_value_with_aux():
    def compute(device):
        def loss(w, x):
            y = x @ w
            return y.pow(2).mean(), y

        w, x = normal(4, 2, device=device), normal(3, 4, device=device)
        gradient, (value, aux) = torch.func.grad_and_value(loss, has_aux=True)(w, x)
        return gradient, value, aux

    assert_same(compute)


def test_grad_of_grad():
    assert_same(
        lambda d: torch.func.grad(lambda x: torch.func.grad(scalar)(x).pow(2).sum())(
            normal(5, device=d)
        )
    )


def test_vjp():
    def compute(device):
        y, pull = torch.func.vjp(lambda x: x.exp() * 2, normal(5, device=device))
        return y, pull(normal(5, device=device))

    assert_same(compute)


def test_jvp():
    def compute(device):
        return torch.func.jvp(
            lambda x: x.tanh() @ x, (normal(5, 5, device=device),), (normal(5, 5, device=device),)
        )

    assert_same(compute, rtol=1e-5, atol=1e-5)


def test_jacobians():
    def compute(device):
        x = normal(3, device=device)
        f = lambda x: torch.outer(x.sin(), x)  # noqa: E731
        return torch.func.jacrev(f)(x), torch.func.jacfwd(f)(x), torch.func.hessian(scalar)(x)

    assert_same(compute)


def test_functional_call():
    def compute(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2).to(device)
        parameters = {name: p.detach() * 2 for name, p in net.named_parameters()}
        x = normal(4, 3, device=device)
        loss = lambda p: torch.func.functional_call(net, p, (x,)).pow(2).mean()  # noqa: E731
        return torch.func.grad(loss)(parameters)

    assert_same(compute)


def test_functionalize():
    def compute(device):
        def f(x):
            y = x.clone()
            y.view(-1)[::2].add_(1.0)
            return y

        return torch.func.functionalize(f)(normal(4, 4, device=device))

    assert_same(compute)


def test_forward_mode_of_torch_autograd():
    def compute(device):
        import torch.autograd.forward_ad as forward

        with forward.dual_level():
            x = forward.make_dual(normal(4, device=device), normal(4, device=device))
            y = (x.exp() * x).sin()
            primal, tangent = forward.unpack_dual(y)
            return primal.clone(), tangent.clone()

    assert_same(compute)


def test_autograd_functional():
    def compute(device):
        x = normal(3, device=device)
        return (
            torch.autograd.functional.jacobian(lambda x: x.exp(), x),
            torch.autograd.functional.hvp(scalar, x, x)[1],
        )

    assert_same(compute)
