"""What `out=` and in-place forms do to memory that other tensors show, and what they refuse."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal


def test_a_smaller_result_leaves_the_storage():
    def compute(device):
        out = torch.ones(6, device=device)
        alias = out.view(6)
        torch.linalg.eigvalsh(torch.eye(2, device=device), out=out)
        return out, alias

    with pytest.warns(UserWarning, match="resized"):
        assert_same(compute)


def test_a_larger_result_takes_aliases_along():
    def compute(device):
        out = torch.ones(2, device=device)
        alias = out.view(2)
        torch.linalg.eigvalsh(torch.diag(torch.arange(4.0, device=device)), out=out)
        return out, alias

    with pytest.warns(UserWarning, match="resized"):
        assert_same(compute)


def test_an_operand_as_result_is_not_resized():
    def compute(device):
        x = torch.ones(3, 1, dtype=torch.complex64, device=device)
        return torch.mul(x, torch.ones(3, dtype=torch.complex64, device=device), out=x)

    assert_same_error(compute)


@pytest.mark.parametrize("function", [torch.abs, torch.neg, torch.floor, torch.bitwise_not])
def test_result_types_that_eager_refuses(function):
    def compute(device):
        x = torch.ones(2, dtype=torch.int32, device=device)
        return function(x, out=torch.ones(2, device=device))

    assert_same_error(compute)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (torch.bool, 0.5),
        (torch.bool, float("-inf")),
        (torch.uint8, -1),
        (torch.int64, 7.9),
        (torch.bfloat16, 1e30),
    ],
)
def test_numbers_that_a_type_holds(dtype, number):
    assert_same(lambda device: torch.full((2,), number, dtype=dtype, device=device))


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(torch.uint8, 300), (torch.int8, 128), (torch.int64, 1e30), (torch.int32, float("nan"))],
)
def test_numbers_that_a_type_does_not_hold(dtype, number):
    assert_same_error(lambda device: torch.full((2,), number, dtype=dtype, device=device))


def test_pivots_of_a_factorization():
    def compute(device):
        a = normal(4, 4, device=device)
        a = a + a.T
        factors, pivots = torch.linalg.ldl_factor(a)
        return torch.linalg.ldl_solve(factors, pivots, torch.eye(4, device=device)) @ a

    assert_same(compute, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("operand", [0, 1])
def test_cat_into_an_operand(operand):
    def concatenate(device):
        parts = [normal(4, 6, device=device), normal(4, 6, device=device)]
        return torch.cat(parts, 0, out=parts[operand])

    assert_same_error(concatenate)


def test_cat_beside_an_operand():
    def concatenate(device):
        memory = normal(12, 6, device=device)
        torch.cat([memory[:2], memory[2:4]], out=memory[8:])
        return memory

    assert_same(concatenate)


def test_take_into_an_operand():
    def take(device, into):
        x, index = torch.arange(3, device=device), torch.tensor([2, 0, 1]).to(device)
        return torch.take(x, index, out=(x, index)[into])

    assert_same_error(lambda device: take(device, 0))
    assert_same_error(lambda device: take(device, 1))


def test_columns_in_place_of_their_image():
    """What eager does not do: it writes over what it still reads."""
    image = torch.arange(12.0).reshape(1, 1, 3, 4)
    expected = torch.nn.functional.unfold(image, 2)
    x = image.to("lazuli")
    assert torch.ops.aten.im2col.out(x, [2, 2], [1, 1], [0, 0], [1, 1], out=x) is x
    torch.testing.assert_close(x.cpu(), expected)
    torch.ops.aten.col2im.out(x, [3, 4], [2, 2], [1, 1], [0, 0], [1, 1], out=x)
    torch.testing.assert_close(x.cpu(), torch.nn.functional.fold(expected, (3, 4), 2))


@pytest.mark.parametrize(
    "where", [(3, 0, 1), (-4, 0, 1), (1, 0, -1), (1, -1, -2), (2, 3, 2), (0, -3, 1)]
)
def test_narrow_copy_of_what_is_not_there(where):
    assert_same_error(lambda device: torch.narrow_copy(normal(2, 3, 4, device=device), *where))


def test_the_gradient_of_log_sigmoid():
    """Of whatever the forward gave for a buffer, which is nothing on accelerators."""

    def differentiate(device):
        x, g = normal(2, 4, device=device), normal(2, 4, device=device)
        out = torch.empty(0, device=device)
        _, buffer = torch.ops.aten.log_sigmoid_forward(x)
        return torch.ops.aten.log_sigmoid_backward.grad_input(g, x, buffer, grad_input=out), out

    assert_same(differentiate)
