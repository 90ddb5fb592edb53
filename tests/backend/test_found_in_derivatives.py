"""Derivatives, and what was written before them: what random programs found."""

import pytest
import torch
import torch.nn.functional as F
from differential import Double, assert_same, assert_same_error, normal
from torch import nn


def test_a_gradient_that_is_no_part_of_the_graph(device):
    def run(device):
        x = torch.ones(1, device=device).requires_grad_()
        y = Double.apply(x)
        (g,) = torch.autograd.grad(y * y, [x], create_graph=True)
        return torch.autograd.grad(y.mean(), [g], allow_unused=True)

    assert_same(run)


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"foreach": True}], ids=str)
def test_versions_of_what_an_optimizer_writes(device, optimizer, options):
    def run(device):
        net = nn.Linear(4, 3).to(device)
        steps = optimizer(net.parameters(), lr=0.1, **options)
        before = net.weight._version
        net(normal(2, 4, device=device)).sum().backward()
        steps.step()
        states = [t._version for t in steps.state[net.weight].values() if t is not None]
        return net.weight._version - before, states

    assert_same(run)


def test_backward_after_an_optimizer_wrote_what_it_needs(device):
    def run(device):
        net = nn.Linear(4, 3).to(device)
        optimizer = torch.optim.Adam(net.parameters())
        y = torch.tanh(net(normal(2, 4, device=device, grad=True)))
        y.sum().backward(retain_graph=True)
        optimizer.step()
        y.sum().backward()

    assert "modified by an inplace operation" in assert_same_error(run, RuntimeError)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("order", [torch.inf, -torch.inf])
def test_the_largest_of_complex_numbers_has_all_of_the_gradient(dtype, order):
    """Its size, as the derivative finds it, must be the norm to the bit."""

    def run(device):
        results = []
        for _ in range(20):
            x = torch.randn(7, 5, dtype=dtype).to(device).requires_grad_()
            norm = torch.linalg.vector_norm(x, order)
            rows = torch.linalg.vector_norm(x, order, 1, dtype=dtype)
            results += [norm, rows, *torch.autograd.grad(norm + rows.real.sum(), x)]
        return [*results, torch.renorm(x, order, 0, 1.0) if order > 0 else x]

    assert_same(run)


FUNCTIONS_OF_ALL = {
    "conv2d of the input": (F.conv2d, 0),
    "conv2d of the weight": (F.conv2d, 1),
    "conv2d of the bias": (F.conv2d, 2),
    "conv_transpose2d of the weight": (F.conv_transpose2d, 1),
    "max_pool2d": (lambda x, *_: F.max_pool2d(x, 2), 0),
    "avg_pool2d": (lambda x, *_: F.avg_pool2d(x, 2), 0),
    "adaptive_avg_pool2d": (lambda x, *_: F.adaptive_avg_pool2d(x, 2), 0),
}


@pytest.mark.parametrize("name", FUNCTIONS_OF_ALL)
@pytest.mark.parametrize("alone", [True, False])
def test_gradients_that_torch_counts_as_functions_of_all_operands(device, name, alone):
    """A penalty on a gradient that depends on nothing has no effect, and is no error."""
    function, which = FUNCTIONS_OF_ALL[name]

    def run(device):
        shapes = (1, 2, 4, 4), (2, 2, 2, 2), (2,)
        operands = [normal(*shape, device=device) for shape in shapes]
        for i, x in enumerate(operands):
            x.requires_grad_(i == which or not alone)
        (g,) = torch.autograd.grad(function(*operands).sum(), operands[which], create_graph=True)
        found = [g, torch.tensor([g.requires_grad, g.is_leaf])]
        if g.requires_grad:
            g.square().sum().backward()
            found += [torch.ones(()) if x.grad is None else x.grad for x in operands]
        return found

    assert_same(run)


def test_expm1_reads_its_result_in_backward(device):
    """So that its operand may be written before, as in eager."""

    def run(device):
        x = torch.linspace(-2, 2, 5).to(device).requires_grad_()
        operand = x * 1
        y = torch.expm1(operand)
        with torch.no_grad():
            operand.mul_(3)
        return torch.autograd.grad(y.sum(), x)

    assert_same(run)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_the_tangent_of_a_quantiles_share(device, name):
    def run(device):
        x, q = torch.tensor([3.0, 1.0, 2.0], device=device), torch.tensor([0.1, 0.7], device=device)
        with torch.autograd.forward_ad.dual_level():
            share = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
            return torch.autograd.forward_ad.unpack_dual(getattr(torch, name)(x, share)).tangent

    assert_same(run)


@pytest.mark.parametrize(
    "use",
    [lambda x: x * 1, lambda x: x.view(-1), lambda x: x.unsqueeze(0).lt(2), lambda x: x + x],
    ids=["product", "view", "comparison", "sum"],
)
def test_an_integer_that_has_a_history(device, use):
    """As a comparison in place gives it one: torch refuses to go on from there."""

    def run(device):
        x = torch.ones(2, dtype=torch.int64).to(device)
        x.lt_(torch.zeros(2, device=device, requires_grad=True))
        with pytest.raises(RuntimeError, match="Autograd not support dtype"):
            use(x)
        return x.requires_grad, x.tolist()

    assert_same(run)


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, 2, 3, 1.5])
def test_a_power_that_is_written_before_backward(device, exponent):
    """Torch's node of a power keeps its operand alone."""

    def run(device):
        x = normal(2, 3, device=device).abs().t().detach().requires_grad_()
        y, z = x.pow(exponent), x.pow(exponent)
        y[0] = 2
        (y.sum() + (z * z).sum()).backward()
        return y.detach(), y.stride(), x.grad

    assert_same(run)
