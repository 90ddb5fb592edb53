"""Derivatives of derivatives."""

import pytest
import torch
from differential import assert_same, normal
from versions import TORCH

FUNCTIONS = {
    "polynomial": lambda x: x * x * x,
    "exp": lambda x: x.exp(),
    "log": lambda x: (x.abs() + 1).log(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x: x.relu(),
    "gelu": lambda x: torch.nn.functional.gelu(x),
    "silu": lambda x: torch.nn.functional.silu(x),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "softplus": lambda x: torch.nn.functional.softplus(x),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "division": lambda x: 1 / (x * x + 1),
    "matmul": lambda x: x @ x.t() @ x,
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (5,)),
    "group_norm": lambda x: torch.nn.functional.group_norm(x.view(1, 5, 5), 5),
    "mean": lambda x: x.mean(1) ** 3,
    "var": lambda x: x.var(1) * x.std(0),
    "norm": lambda x: x.norm(dim=1),
    "prod": lambda x: x.prod(1),
    "max": lambda x: x.amax(1) * x.max(0).values,
    "cumsum": lambda x: x.cumsum(0) ** 2,
    "index": lambda x: x[torch.tensor([0, 0, 2], device=x.device)] ** 2,
    "views": lambda x: (x.t()[1:, ::2] ** 2).unfold(0, 2, 1),
    "cat": lambda x: torch.cat([x, x * x], 1) ** 2,
    "where": lambda x: torch.where(x > 0, x * x, x**3),
    "conv1d": lambda x: torch.nn.functional.conv1d(x[None], x[:, :, None][:3, :5]) ** 2,
    "mse": lambda x: torch.nn.functional.mse_loss(x * x, x),
    "smooth_l1": lambda x: torch.nn.functional.smooth_l1_loss(x * x, x, beta=0.7),
    "logsigmoid": lambda x: torch.nn.functional.logsigmoid(x),
    "cross_entropy": lambda x: torch.nn.functional.cross_entropy(
        x * x, torch.arange(5, device=x.device)
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivative(name):
    def differentiate(device):
        x = normal(5, 5, device=device, grad=True)
        y = FUNCTIONS[name](x)
        (g,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
        (g * g + g).sum().backward()
        return y, g, x.grad

    assert_same(differentiate, rtol=1e-4, atol=1e-5)


# torch's own third derivative of layer_norm is wrong: gradcheck refuses it on the CPU.
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "layer_norm"])
def test_third_derivative_of(name):
    """Which derivatives are zero because there is none is each formula's own."""

    def differentiate(device):
        x = normal(5, 5, device=device, dtype=torch.float64, grad=True)
        y, derivatives = FUNCTIONS[name](x), []
        for order in range(3):
            weights = normal(*y.shape, device=device, dtype=torch.float64)
            if y.requires_grad:
                (y,) = torch.autograd.grad(
                    y, x, weights, create_graph=order < 2, materialize_grads=True
                )
            else:
                y = torch.zeros_like(x).detach()
            derivatives.append(y.detach())
        return derivatives

    assert_same(differentiate, ignore=("stride",))


def test_third_derivative_of_layer_norm(device):
    if not torch.lazuli.config.light_autograd:
        pytest.skip("torch's own formula")

    def second(x):
        y = torch.nn.functional.layer_norm(x, (5,))
        (g,) = torch.autograd.grad(y, x, weights[0], create_graph=True)
        return torch.autograd.grad(g, x, weights[1], create_graph=True)[0]

    x, *weights = (torch.randn(3, 5, dtype=torch.float64).to(device) for _ in range(3))
    assert torch.autograd.gradcheck(second, (x.requires_grad_(),))


def test_third_derivative():
    def differentiate(device):
        x = normal(5, device=device, grad=True)
        y, derivatives = (x.sin() * x).sum(), []
        for _ in range(3):
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            derivatives.append(g)
            y = g.sum()
        return derivatives

    assert_same(differentiate)


def test_gradient_penalty():
    def differentiate(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        net.to(device)
        x = normal(6, 4, device=device, grad=True)
        (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        (g.norm(dim=1) - 1).pow(2).mean().backward()
        return [p.grad for p in net.parameters() if p.grad is not None]

    # Two gradients meet in each weight, and the first decides the stride of dimensions of size
    # one. On torch's engine their order depends on how many nodes its threads have made before.
    assert_same(differentiate, ignore=("stride",))


@pytest.mark.parametrize("name", ["polynomial", "tanh", "softmax", "matmul", "division"])
def test_gradgradcheck(name):
    torch.manual_seed(0)
    x = torch.randn(5, 5, dtype=torch.float64).to("lazuli").requires_grad_()
    assert torch.autograd.gradcheck(FUNCTIONS[name], (x,))
    assert torch.autograd.gradgradcheck(FUNCTIONS[name], (x,))


@pytest.mark.parametrize("norm", ["layer_norm", "group_norm"])
def test_a_bias_that_a_gradient_does_not_depend_on(norm):
    """It gets none or zeros, as in eager: optimizers tell them apart."""

    def run(device):
        shapes = (2, 4), (4,), (4,)
        x, weight, bias = (normal(*shape, device=device).requires_grad_() for shape in shapes)
        where = ((4,), weight, bias) if norm == "layer_norm" else (2, weight, bias)
        y = getattr(torch.nn.functional, norm)(x, *where)
        (slope,) = torch.autograd.grad((y * y.detach()).sum(), x, create_graph=True)
        slope.sum().backward()
        if norm == "group_norm" and TORCH >= (2, 14):
            # There torch's gradient has a way to it through the mean, and is zeros.
            return x.grad, weight.grad
        return x.grad, weight.grad, bias.grad is None

    assert_same(run)
