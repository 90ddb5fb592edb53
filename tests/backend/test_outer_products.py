"""Products of one term for each element, as gradients of weights for a single row are."""

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, normal

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
def test_products(batch, dtype):
    def program(device):
        torch.manual_seed(0)
        column = normal(*batch, 7, 1, device=device, dtype=dtype)
        row = normal(*batch, 1, 9, device=device, dtype=dtype)
        return column @ row, (row.mT @ column.mT) * 2 + 1

    assert_same(program, rtol=0, atol=0)


@pytest.mark.parametrize("special", [float("inf"), float("nan"), 0.0])
def test_of_special_numbers(special):
    def program(device):
        x = torch.tensor([[special], [1.0], [-2.0]], device=device)
        return x @ x.mT

    assert_same(program)


def test_gradients_of_one_row():
    def program(device):
        torch.manual_seed(0)
        x, weight, bias = (
            normal(*shape, device=device, grad=True) for shape in [(1, 12), (20, 12), (20,)]
        )
        F.linear(x, weight, bias).tanh().sum().backward()
        return x.grad, weight.grad, bias.grad

    assert_same(program)


def test_the_sum_of_a_vector_by_the_columns_of_a_matrix():
    def program(device):
        torch.manual_seed(0)
        return normal(300, 400, device=device).T @ normal(300, device=device)

    assert_same(program)


def test_the_product_alone_is_a_kernel(planned, counters):
    x, gradient = torch.randn(1, 32).to("lazuli"), torch.randn(1, 64).to("lazuli")
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    (gradient.T @ x).cpu()
    after = counters()
    assert after["kernels_compiled"] + after["kernels_reused"] == 1
