"""Writes into memory that several elements share, or that is read meanwhile."""

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, assert_same_error, normal

REFUSED = {
    "copy": lambda e, ones: e.copy_(ones),
    "copy from the host": lambda e, ones: e.copy_(ones.cpu()),
    "add": lambda e, ones: e.add_(ones),
    "add a number": lambda e, ones: e.add_(1),
    "relu": lambda e, ones: e.relu_(),
    "normal": lambda e, ones: e.normal_(),
    "scatter": lambda e, ones: e.scatter_(0, torch.zeros_like(ones, dtype=torch.long), ones),
    "index_copy": lambda e, ones: e.index_copy_(0, ones[0, :2].long(), ones),
    "index_add": lambda e, ones: e.index_add_(0, ones[0, :2].long(), ones),
    "clamp": lambda e, ones: e.clamp_(0, 1),
    "foreach": lambda e, ones: torch._foreach_add_([e], 1),
}


@pytest.mark.parametrize("write", REFUSED.values(), ids=REFUSED.keys())
def test_elements_in_one_place(device, write):
    def run(device):
        write(torch.zeros(1, 3).to(device).expand(2, 3), torch.ones(2, 3).to(device))

    assert "more than one element" in assert_same_error(run, RuntimeError)


def test_one_number_for_all(device):
    def fill(device):
        x = torch.zeros(1, 3, device=device)
        y = x.expand(2, 3)
        y.fill_(2)
        z = y + 1
        y.zero_()
        return x, z

    assert_same(fill)


@pytest.mark.parametrize("forward", [True, False])
def test_copy_to_its_neighbour(device, forward):
    def run(device):
        x = torch.arange(5.0).to(device)
        left, right = x[:-1], x[1:]
        (right.copy_(left) if forward else left.copy_(right))

    assert "single memory location" in assert_same_error(run, RuntimeError)


def test_copy_onto_itself(device):
    def run(device):
        x = torch.arange(6.0).to(device)
        x[1:].copy_(x[1:])
        return x, x._version

    assert_same(run)


def test_index_put_of_what_it_writes(device):
    def run(device):
        x = torch.arange(6.0).to(device)
        x[torch.tensor([0, 1]).to(device)] = x[2:4]

    assert_same_error(run, RuntimeError)


def test_masked_fill_of_shared_elements(device):
    def run(device):
        x = torch.zeros(1, 3).to(device)
        x.expand(2, 3).masked_fill_(torch.ones(2, 3, dtype=torch.bool).to(device), 5)
        return x

    with pytest.warns(UserWarning, match="expanded tensors"):
        assert_same(run)


def test_subtracting_a_bool(device):
    for other in (True, torch.tensor(True), torch.tensor([True, False])):

        def run(device, other=other):
            torch.ones(2).to(device).sub_(other if other is True else other.to(device))

        assert_same_error(run, RuntimeError)


def test_selecting_from_nothing(device):
    def run(device):
        torch.zeros(0, 3).to(device).index_select(0, torch.tensor([0]).to(device))

    assert_same_error(run, RuntimeError)


class TestOneHot:
    @pytest.mark.parametrize("classes", [-1, 3, 5])
    def test_numbers(self, device, classes):
        assert_same(lambda d: F.one_hot(torch.tensor([[0, 2], [1, 1]]).to(d), classes))

    def test_nothing(self, device):
        assert_same(lambda d: F.one_hot(torch.zeros(0, 2, dtype=torch.long).to(d), 4))
        assert_same_error(lambda d: F.one_hot(torch.zeros(0, dtype=torch.long).to(d)))

    @pytest.mark.parametrize("classes", [-1, 0, -2])
    def test_errors_at_the_call(self, device, classes):
        assert_same_error(lambda d: F.one_hot(torch.tensor([-1, 2]).to(d), classes), RuntimeError)

    @pytest.mark.parametrize("index", [[-1, 2], [1, 4]])
    def test_errors_of_numbers(self, device, index):
        def run(device):
            F.one_hot(torch.tensor(index).to(device), 4).sum().item()

        with pytest.raises(RuntimeError) as expected:
            run("cpu")
        with pytest.raises(RuntimeError) as actual:
            run(device)
        assert str(actual.value).endswith(str(expected.value))


@pytest.mark.parametrize("window", [(16, 2, 1, 16), (4, 2, 4, 1), (1, 1, 8, 2)])
def test_product_of_overlapping_windows(device, window):
    def run(device):
        x = normal(400, device=device).as_strided((7, 8, 2, 2), window)
        return torch.matmul(x, x.transpose(-1, -2)), torch.matmul(x[0], x[1])

    assert_same(run)


def test_product_of_unfolded_rows(device):
    def run(device):
        x = normal(40, device=device).unfold(0, 8, 2).unfold(0, 3, 1)
        return torch.matmul(x, x.transpose(-1, -2))

    assert_same(run)


class TestGeometry:
    @pytest.mark.parametrize("dims", [0, 1, 2, (0, 1), (2, 3)])
    @pytest.mark.parametrize("shift", [0, 1, -1, 7])
    @pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2), (1, 0, 2, 3)])
    def test_roll(self, device, dims, shift, order):
        def run(device):
            x = normal(2, 3, 4, 5, device=device).permute(order)
            return x.roll(shift if isinstance(dims, int) else (shift, shift + 1), dims)

        assert_same(run)

    def test_cat_of_images(self, device):
        def images(device, *channels):
            shapes = [(2, c, 4, 5) for c in channels]
            return [normal(*s, device=device).to(memory_format=torch.channels_last) for s in shapes]

        assert_same(lambda d: torch.cat(images(d, 3, 7), 1))
        assert_same(lambda d: torch.cat([*images(d, 3, 7), torch.empty(0).to(d)], 1))
        assert_same(lambda d: torch.cat([*images(d, 3), normal(2, 3, 4, 5, device=d)], 1))


def test_type_of_cat_with_nothing(device):
    def run(device):
        nothing = torch.empty(0).to(device).requires_grad_()
        out = torch.cat([nothing, torch.ones(2, 3, dtype=torch.uint8).to(device)])
        out.sum().backward()
        return out.detach(), nothing.grad

    assert_same(run)


def test_conversion_of_a_view_that_was_written(device):
    def run(device):
        a = normal(4, 4, device=device, grad=True)
        b = a * 1
        c = b.split(2)[0]
        b.add_(1)
        return c.to(torch.int32)

    assert_same(run)
