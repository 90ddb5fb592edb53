"""The variance of equal numbers is nothing, though their mean is rounded."""

import pytest
import torch
from differential import assert_same, normal


@pytest.mark.usefixtures("with_and_without_plans")
@pytest.mark.parametrize("value", [7.3, 0.1, 123.456, -1e-3, 3e5])
@pytest.mark.parametrize("n", [2, 5, 7, 125, 1000])
def test_equal_numbers(n, value, device):
    rows, columns = torch.full((3, n), value), torch.full((n, 3), value)
    assert not rows.to(device).var().any()
    assert not rows.to(device).std(1).any()
    assert not torch.var_mean(columns.to(device), 0)[0].any()


@pytest.mark.parametrize(
    "numbers", [[1e30, 2e30, 3e30, 5e30], [1e26] * 3 + [1.1e26], [-3e38, 3e38]]
)
def test_large_numbers(numbers):
    assert_same(lambda device: torch.tensor(numbers).to(device).var(), rtol=1e-5, atol=0)


def test_a_constant_column_is_left_out_of_a_normalization():
    def normalized(device):
        x = normal(50, 4, device=device)
        x[:, 2] = 7.3
        std = x.std(0)
        return (x - x.mean(0)) / torch.where(std == 0, torch.ones_like(std), std)

    assert_same(normalized, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("equal", [False, True])
def test_two_derivatives(equal):
    def derivatives(device):
        x = normal(5, device=device, dtype=torch.float64)
        x = (torch.full_like(x, 2) if equal else x).requires_grad_()
        (first,) = torch.autograd.grad(x.var(), x, create_graph=True)
        (second,) = torch.autograd.grad(first[0], x)
        return first, second

    assert_same(derivatives, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", [1e-30, 1e-23, 1e22, 1e36])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("unplanned", ["auto", "never"])
def test_a_deviation_whose_square_its_type_does_not_hold(size, dtype, unplanned):
    def deviations(device):
        x = (normal(6, 50, device=device) * size).to(dtype).requires_grad_()
        deviation = x.std(1)
        deviation.sum().backward()
        return x.std(0), x.std(), deviation, x.grad

    with torch.lazuli.config.patch(unplanned=unplanned):
        assert_same(deviations, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=0)


@pytest.mark.usefixtures("with_and_without_plans")
@pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (1, 1)])
def test_of_too_few_numbers(shape):
    assert_same(lambda device: torch.ones(shape).to(device).var())
