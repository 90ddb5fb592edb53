"""One tensor, or one storage, as several operands of one op."""

import torch
from differential import assert_same, normal


def test_the_same_tensor_twice():
    def compute(device):
        x = normal(3, 3, device=device)
        return x + x, x * x - x, x @ x, torch.where(x > 0, x, x), torch.cat([x, x, x])

    assert_same(compute)


def test_in_place_with_itself():
    def compute(device):
        x = normal(3, 3, device=device)
        x.add_(x).mul_(x)
        x.copy_(x)
        return x

    assert_same(compute)


def test_in_place_with_a_view_of_itself():
    def compute(device):
        x = normal(3, 3, device=device)
        x.mul_(x[0:1].clone())
        x[0].add_(x[1])
        x[:, 0].copy_(x[:, 1])
        x.t()[1].sub_(x[2])
        return x

    assert_same(compute)


def test_in_place_with_an_overlapping_clone():
    def compute(device):
        x = normal(8, device=device)
        x[1:].copy_(x[:-1].clone())
        return x

    assert_same(compute)


def test_a_module_that_uses_a_parameter_twice():
    def compute(device):
        torch.manual_seed(0)
        embedding = torch.nn.Embedding(5, 4).to(device)
        head = torch.nn.Linear(4, 5, bias=False).to(device)
        head.weight = embedding.weight
        ids = torch.arange(5).to(device)
        loss = torch.nn.functional.cross_entropy(head(embedding(ids)), ids)
        loss.backward()
        return loss, head.weight.grad

    assert_same(compute)


def test_an_external_call_with_aliases():
    def compute(device):
        x = normal(4, 4, device=device)
        values, indices = torch.sort(x, 0)
        return torch.kron(x, x), torch.cdist(x, x[1:]), values, indices

    assert_same(compute)


def test_two_storages_of_equal_numbers_stay_apart():
    def compute(device):
        a = torch.zeros(3, device=device)
        b = torch.zeros(3, device=device)
        a.add_(1)
        return a, b

    assert_same(compute)


def test_writing_after_the_value_was_used():
    def compute(device):
        x = normal(3, device=device)
        y = x.sin()
        x.zero_()
        z = x + y
        x.fill_(2)
        return x, y, z

    assert_same(compute)
