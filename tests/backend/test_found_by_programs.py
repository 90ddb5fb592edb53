"""Defects that random programs found, each as the smallest program that shows it."""

import pytest
import torch
import torch.nn.functional as F
from differential import Double, assert_same, assert_same_error, normal
from torch import nn


def test_bytes_of_a_range(device):
    """A range is computed where it is read: its bytes are not those of a range of another type."""

    def run(device):
        x = torch.arange(3, device=device).view(torch.float32)
        y = torch.full((3,), 7, dtype=torch.int32, device=device).view(torch.float32)
        z = torch.ones(3, device=device).view(torch.int32)
        return x * x, y * 1, z + 1

    assert_same(run)


def test_a_gradient_that_is_no_part_of_the_graph(device):
    def run(device):
        x = torch.ones(1, device=device).requires_grad_()
        y = Double.apply(x)
        (g,) = torch.autograd.grad(y * y, [x], create_graph=True)
        return torch.autograd.grad(y.mean(), [g], allow_unused=True)

    assert_same(run)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wrong", ["input", "target"])
def test_probabilities_that_are_none(device, dtype, wrong):
    def run(device):
        given = {"input": torch.full((2, 2), 0.5), "target": torch.full((2, 2), 0.5)}
        given[wrong] = given[wrong] + 1
        F.binary_cross_entropy(**{k: v.to(device, dtype) for k, v in given.items()}).item()

    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match=f"all elements of {wrong} should be between"):
            run(where)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_class_of_an_index_error(device, dim):
    def run(device):
        x = torch.ones(2, 3, 4).to(device)
        x.index_select(dim, torch.tensor([9]).to(device)).sum().item()

    errors = []
    for where in ("cpu", device):
        with pytest.raises((RuntimeError, IndexError)) as error:
            run(where)
        errors.append(error.type)
    assert errors[0] is errors[1]


def test_memory_that_is_no_whole_number_of_elements(device):
    def run(device):
        memory = torch.arange(21, dtype=torch.uint8).to(device)
        x = torch.zeros(1, dtype=torch.long).to(device)
        x.set_(memory.untyped_storage(), 0, (2,), (1,))
        y = x + 1
        x[1] = 5
        return y, x.clone(), memory

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


def test_a_range_into_memory_of_another_shape(device):
    def run(device):
        out = torch.ones(2, 3).to(device)
        nothing = torch.ones(1, 0).to(device)
        torch.arange(6, out=out)
        torch.arange(1, 1, out=nothing)
        return out, nothing

    assert_same(run)
