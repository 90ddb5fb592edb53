"""Writes to memory that somebody else sees, or sees otherwise: what random programs found."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal


def test_bytes_of_a_range(device):
    """A range is computed where it is read: its bytes are not those of a range of another type."""

    def run(device):
        x = torch.arange(3, device=device).view(torch.float32)
        y = torch.full((3,), 7, dtype=torch.int32, device=device).view(torch.float32)
        z = torch.ones(3, device=device).view(torch.int32)
        return x * x, y * 1, z + 1

    assert_same(run)


def test_a_range_into_memory_of_another_shape(device):
    def run(device):
        out = torch.ones(2, 3).to(device)
        nothing = torch.ones(1, 0).to(device)
        torch.arange(6, out=out)
        torch.arange(1, 1, out=nothing)
        return out, nothing

    assert_same(run)


def test_a_part_written_beside_a_gradient_of_it(device):
    """Both the gradient and what was written could lie in the old numbers' place."""

    def run(device):
        x = normal(3, device=device).requires_grad_()
        first, *_ = x
        (gradient,) = torch.autograd.grad(first * first, [x])
        with torch.no_grad():
            first.square_()
        return x, gradient

    assert_same(run)


CONVERSIONS = [
    (torch.bfloat16, torch.float16),
    (torch.float16, torch.int16),
    (torch.float32, torch.int32),
    (torch.uint8, torch.bool),
]


@pytest.mark.parametrize(("wide", "narrow"), CONVERSIONS)
def test_a_part_of_what_is_converted_in_place(device, wide, narrow):
    """The input dies, so that the result may lie in its place: but in other bytes."""

    def run(device):
        x = (torch.arange(6) / 4 + 1).to(wide).to(device)
        y = x.to(narrow)
        part = y.reshape(-1)[0:5]
        part.bitwise_xor_(True) if narrow == torch.bool else part.mul_(3)
        return y

    assert_same(run)


def test_an_interpolation_into_another_type(device):
    def run(device):
        x = torch.ones(3, device=device)
        torch.lerp(x, x, x, out=torch.ones(3, dtype=torch.float64, device=device))

    assert_same_error(run)


def test_complex_numbers_added_to_what_overlaps(device):
    def run(device):
        x = torch.ones(3, dtype=torch.complex64, device=device).expand(2, 3)
        x += torch.ones(2, device=device)

    assert "more than one element" in assert_same_error(run)


@pytest.mark.parametrize("shape", [(2, 16), (2, 4)])
def test_a_mask_subtracted_from_complex_numbers(device, shape):
    def run(device):
        x = torch.ones(2, 16, dtype=torch.complex64, device=device)
        x.sub_(torch.ones(shape, dtype=torch.bool, device=device))

    assert "with a bool tensor" in assert_same_error(run)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
@pytest.mark.parametrize("wide", [torch.float32, torch.int32, torch.complex64])
def test_copies_into_a_negated_view(device, dtype, wide):
    def run(device):
        x = torch.zeros(3, dtype=wide, device=device)
        torch._neg_view(x).copy_(torch.tensor([0, 1, 1], dtype=dtype).to(device))
        y = torch._neg_view(torch.tensor([0, 1, 2], dtype=wide, device=device))
        z = torch.zeros(3, dtype=torch.int8, device=device)
        return x, z if wide.is_complex else z.copy_(y)

    assert_same(run)


@pytest.mark.parametrize("source", [torch.uint8, torch.int64, torch.float32, torch.complex64])
@pytest.mark.parametrize("to", [torch.bool, torch.int64, torch.float32, torch.complex64])
def test_copies_of_a_negated_view(source, to):
    """They are negated as what they become, which may have no sign."""

    def run(device):
        x = torch.zeros(3, dtype=to, device=device)
        negated = torch._neg_view(torch.tensor([0, 1, 3], dtype=source, device=device))
        try:
            return x.copy_(negated)
        except NotImplementedError as error:
            return str(error)

    assert_same(run)


def test_a_copy_between_two_negated_views(device):
    def run(device):
        x, y = torch.zeros(3, device=device), torch.arange(3.0).to(device)
        torch._neg_view(x).copy_(torch._neg_view(y))
        return x

    assert_same(run)


def test_lists_written_where_they_are_read(device):
    def run(device):
        x = torch.ones(4, device=device)
        torch._foreach_add_([x[1:]], [x[:-1]])

    assert_same_error(run)


def test_a_source_of_another_shape_with_as_many_elements(device):
    def run(device):
        index = torch.zeros(2, 3, dtype=torch.int64, device=device)
        torch.zeros(4, 4, device=device).scatter(0, index, torch.ones(3, 2, device=device))

    assert_same_error(run)


@pytest.mark.parametrize("count", [5, 7, 9])
def test_writes_through_a_wider_type(device, count):
    """The memory has bytes beyond those of the last wide number."""

    def run(device):
        x = torch.arange(count, dtype=torch.uint8).to(device)
        x[:4].view(torch.int32).fill_(7)
        return x

    assert_same(run)
