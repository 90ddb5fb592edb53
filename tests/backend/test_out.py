"""`out=`: results go into a tensor that is there already."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal, tensor

OPS = {
    "add": lambda a, b, out: torch.add(a, b, out=out),
    "add alpha": lambda a, b, out: torch.add(a, b, alpha=2.5, out=out),
    "sub": lambda a, b, out: torch.sub(a, b, out=out),
    "div": lambda a, b, out: torch.div(a, b, out=out),
    "exp": lambda a, b, out: torch.exp(a, out=out),
    "maximum": lambda a, b, out: torch.maximum(a, b, out=out),
    "where": lambda a, b, out: torch.where(a > b, a, b, out=out),
    "mm": lambda a, b, out: torch.mm(a, b.t().contiguous().t(), out=out),
    "addmm": lambda a, b, out: torch.addmm(a, a, b, out=out),
    "cumsum": lambda a, b, out: torch.cumsum(a, 0, out=out),
    "softmax": lambda a, b, out: torch.softmax(a, 1, out=out),
    "mean": lambda a, b, out: torch.mean(a, 1, keepdim=True, out=out),
    "sum": lambda a, b, out: torch.sum(a, 0, out=out),
}

SQUARE = [name for name in OPS if name not in ("mean", "sum")]


def operands(device):
    return normal(4, 4, device=device), normal(4, 4, device=device)


@pytest.mark.parametrize("op", SQUARE)
def test_right_size(op):
    def fill(device):
        a, b = operands(device)
        out = normal(4, 4, device=device)
        assert OPS[op](a, b, out) is out
        return out

    assert_same(fill)


@pytest.mark.parametrize("op", OPS)
def test_empty_is_resized(op):
    def fill(device):
        a, b = operands(device)
        out = torch.empty(0, device=device)
        assert OPS[op](a, b, out) is out
        return out

    assert_same(fill)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("op", OPS)
def test_wrong_size_is_resized(op):
    def fill(device):
        a, b = operands(device)
        out = normal(3, 7, device=device)
        OPS[op](a, b, out)
        return out

    assert_same(fill)


def test_wrong_size_warns():
    for device in ("cpu", "lazuli"):
        a, b = operands(device)
        with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
            torch.add(a, b, out=torch.empty(5, device=device))


@pytest.mark.parametrize("op", SQUARE)
def test_not_contiguous(op):
    def fill(device):
        a, b = operands(device)
        memory = normal(8, 8, device=device)
        out = memory.t()[::2, 1:5]
        OPS[op](a, b, out)
        return out, memory

    assert_same(fill)


@pytest.mark.parametrize("op", ["add", "exp", "maximum", "where"])
def test_out_is_an_operand(op):
    def fill(device):
        a, b = operands(device)
        OPS[op](a, b, a)
        return a

    assert_same(fill)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_dtype_is_converted_to(dtype):
    def fill(device):
        a, b = operands(device)
        return torch.add(a, b, out=torch.empty(4, 4, dtype=dtype, device=device))

    assert_same(fill)


def test_a_dtype_that_cannot_hold_the_result():
    def fill(device):
        a, b = operands(device)
        torch.add(a, b, out=torch.empty(4, 4, dtype=torch.int64, device=device))

    assert "can't be cast" in assert_same_error(fill, RuntimeError)


def test_several_results():
    def fill(device):
        a, _ = operands(device)
        values = torch.empty(0, device=device)
        indices = torch.empty(0, dtype=torch.int64, device=device)
        torch.max(a, 1, out=(values, indices))
        ordered, order = torch.sort(a, 0, out=(torch.empty_like(a), indices.new_empty(4, 4)))
        return values, indices, ordered, order

    assert_same(fill)


def test_out_cannot_be_differentiated_into():
    def fill(device):
        a, b = normal(2, device=device, grad=True), normal(2, device=device)
        torch.add(a, b, out=torch.empty(2, device=device))

    assert_same_error(fill, RuntimeError)


def test_comparison_into_bool():
    def fill(device):
        out = torch.empty(3, dtype=torch.bool, device=device)
        return torch.gt(tensor([1.0, 2.0, 3.0], device), 2, out=out)

    assert_same(fill)


def test_partly_overlapping_out_is_an_error():
    def fill(device):
        x = normal(10, device=device)
        torch.add(x[:6], 1, out=x[2:8])

    assert_same_error(fill, RuntimeError)
