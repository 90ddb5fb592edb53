"""backend/torch_internals/node_creation.h"""

import pytest
import torch
from differential import assert_same, normal

creation_hook = getattr(torch.autograd.graph, "node_creation_hook", None)
pytestmark = pytest.mark.skipif(creation_hook is None, reason="torch has no such hook before 2.14")


def test_hooks_are_told_of_each_node_at_once():
    def work(device):
        seen = []
        x = normal(3, 4, device=device, grad=True)
        with creation_hook(lambda node: seen.append(node.name())):
            y = (x * 2).sin()[:2]
            count = len(seen)
            z = y.relu().sum()
        (z * 3).backward()
        return seen, count, x.grad

    assert_same(work)


def test_hooks_may_compute():
    def work(device):
        seen = []
        a = normal(3, device=device, grad=True)

        def hook(node):
            with torch.no_grad():
                seen.append((a * 3).sum().item())
                seen.append(a[1:]._is_view())

        with creation_hook(hook):
            y = (a * 2).sin()
            (slope,) = torch.autograd.grad(y.sum(), a, create_graph=True)
        slope.sum().backward()
        return len(seen) > 0, slope, a.grad

    assert_same(work)


def test_hooks_are_told_of_the_nodes_of_a_derivative():
    def work(device):
        seen = []
        x = normal(3, device=device, grad=True)
        y = x.exp().sum()
        with creation_hook(lambda node: seen.append(type(node).__name__)):
            (slope,) = torch.autograd.grad(y, x, create_graph=True)
        return len(seen) > 0, slope

    assert_same(work)
