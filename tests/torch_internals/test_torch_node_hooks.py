"""backend/torch_internals/node_hooks.h"""

import pytest
import torch


def accumulator(leaf):
    return (leaf * 2).grad_fn.next_functions[0][0]


WAYS = {
    "Tensor.register_hook": lambda leaf: leaf.register_hook(lambda g: g),
    "Tensor.register_post_accumulate_grad_hook": lambda leaf: (
        leaf.register_post_accumulate_grad_hook(lambda t: None)
    ),
    "Node.register_hook": lambda leaf: accumulator(leaf).register_hook(lambda i, o: None),
    "Node.register_prehook": lambda leaf: accumulator(leaf).register_prehook(lambda g: None),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_seen(ask, way):
    leaf = torch.ones(2, requires_grad=True)
    y = leaf * 2  # holds the leaf's node
    assert not ask.leaf_is_hooked(leaf)
    WAYS[way](leaf)
    assert ask.leaf_is_hooked(leaf), f"{way} must be among the lists of hooks that is_hooked asks"
    assert y.requires_grad


def test_there_is_no_other_way():
    tensor = {f"Tensor.{n}" for n in dir(torch.Tensor) if n.startswith("register_")}
    node = {f"Node.{n}" for n in dir(torch.autograd.graph.Node) if n.startswith("register_")}
    assert tensor | node == set(WAYS), (
        "torch has another way to hook code to a node: is_hooked must know it, or it is not called"
    )
