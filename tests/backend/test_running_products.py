"""Running products, and whole ones: numbers, and derivatives where factors are 0."""

import pytest
import torch
from differential import NATIVE_TYPES, assert_same, normal, tensor

LINES = {
    "none": [0.5, -1.5, 2.0, 1.25, -0.75],
    "one zero": [0.5, -1.5, 0.0, 1.25, -0.75],
    "the first": [0.0, -1.5, 2.0, 1.25, -0.75],
    "the last": [0.5, -1.5, 2.0, 1.25, 0.0],
    "two zeros": [0.5, 0.0, 2.0, 0.0, -0.75],
    "all": [0.0] * 5,
}
PRODUCTS = {
    "cumprod": lambda x: x.cumprod(-1),
    "along rows": lambda x: x.unsqueeze(-1).expand(5, 3).cumprod(0),
    "flipped": lambda x: x.flip(0).cumprod(0).flip(0),
    "prod": lambda x: x.prod(),
    "prod along a dimension": lambda x: torch.stack([x, x * x]).prod(1, keepdim=True),
    "prod of few": lambda x: torch.stack([x, x.roll(1)]).prod(0),
}


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("line", LINES)
def test_derivatives_at_zeros(line, product):
    def differentiate(device):
        x = tensor(LINES[line], device, torch.float64, grad=True)
        y, found = PRODUCTS[product](x), []
        for order in range(3):
            weights = normal(*y.shape, device=device, dtype=torch.float64)
            (y,) = torch.autograd.grad(
                y, x, weights, create_graph=order < 2, materialize_grads=True
            )
            found.append(y.detach())
            if not y.requires_grad:
                break
        return found

    assert_same(differentiate, ignore=("stride",))


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("line", LINES)
def test_derivatives_are_those_of_differences(line, product, device):
    x = tensor(LINES[line], device, torch.float64, grad=True)
    assert torch.autograd.gradcheck(PRODUCTS[product], x)
    assert torch.autograd.gradgradcheck(PRODUCTS[product], x)


@pytest.mark.parametrize("dtype", NATIVE_TYPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_types(dtype, dim):
    def products(device):
        x = (normal(3, 5, 7, device="cpu") * 2).to(dtype).to(device)
        given = [x.cumprod(dim, dtype=t) for t in (torch.float32, torch.int64, torch.float16)]
        y = torch.zeros((), device=device, dtype=given[0].dtype)
        torch.cumprod(x, dim, dtype=torch.float32, out=y)
        if dtype.is_floating_point:
            x = x.clone().cumprod_(dim)
        return x.cumprod(dim), x.t().cumprod(dim) if x.dim() == 2 else x.mT.cumprod(dim), given, y

    assert_same(products, rtol=2e-2 if dtype == torch.bfloat16 else 2e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_gradients_of_narrow_types(dtype):
    def differentiate(device):
        x = torch.linspace(0.5, 1.5, 24).reshape(4, 6).to(dtype).to(device).requires_grad_()
        y = x.cumprod(1).sum() + x.prod(0).sum() + x.prod()
        y.backward()
        return y, x.grad

    assert_same(differentiate, rtol=4e-2, atol=2e-2)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), ()], ids=str)
def test_few_elements(shape):
    def differentiate(device):
        x = normal(*shape, device=device, grad=True)
        w = x * 2
        results = [w.cumprod(0), w.prod(), w.cumprod(-1) if shape else w]
        if shape:
            results.append(w.prod(0))
            results.append(w.prod(-1, keepdim=True))
        sum(r.sum() for r in results).backward()
        return results, x.grad

    assert_same(differentiate, ignore=("stride",))


def test_one_factor():
    """torch's derivative of one factor is the gradient itself, which depends on no factor."""

    def differentiate(device):
        x = normal(4, 1, device=device, grad=True)
        y = x.cumprod(1)
        (g,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
        (h,) = torch.autograd.grad((x * x).cumprod(1).square().sum(), x, create_graph=True)
        return g, h

    assert_same(differentiate, ignore=("stride",))


def test_lines_longer_than_a_block():
    def differentiate(device):
        x = (1 + normal(130, 700, device=device) * 0.01).requires_grad_()
        y = x.cumprod(1)
        z = x.t().cumprod(1)
        (y.sum() + (z * z).sum() + y[:, 3:].prod(0).sum()).backward()
        return y, z, x.grad

    assert_same(differentiate, ignore=("stride",), rtol=1e-4, atol=1e-4)


def test_sizes_that_change():
    def train(device):
        found = []
        w = torch.ones(1, device=device, requires_grad=True)
        for i in range(12):
            x = (torch.linspace(0.1, 0.9, 4 + i % 5).to(device) * w).reshape(1, -1)
            loss = (x * torch.cumprod(1 - x, 1)).sum() + x.prod(1).sum()
            loss.backward()
            found.append(w.grad.clone())
            w.grad = None
        return found

    assert_same(train)


def test_backward_reads_nothing(counters):
    """The derivative is no question about the numbers: forward and backward are one trace."""
    if not torch.lazuli.config.light_autograd:
        pytest.skip("torch's formula asks for zeros")
    x = normal(6, 8, device="lazuli", grad=True)
    before = counters()["syncs"]
    ((1 - x).cumprod(1) * x).sum().backward()
    x.prod(1).sum().backward()
    assert counters()["syncs"] == before


def test_a_result_that_was_written_is_refused():
    def write(device):
        messages = []
        for product in (lambda x: x.cumprod(0), lambda x: x.prod(0)):
            x = normal(3, 4, device=device, grad=True)
            y = product(x * 1)
            y.mul_(2)
            with pytest.raises(RuntimeError, match="inplace operation") as caught:
                y.sum().backward()
            messages.append(str(caught.value).split("]")[-1])
        return messages

    assert_same(write)
