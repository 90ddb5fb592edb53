"""backend/torch_internals/node_mutex.h"""

import threading

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def test_a_leafs_node_is_locked_while_it_accumulates(ask):
    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.ones(2)
    seen = {}

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            # A mutex must not be tried by the thread that holds it.
            name = func.overloadpacket.__name__
            look = threading.Thread(target=lambda: seen.update({name: ask.leaf_is_locked(leaf)}))
            look.start()
            look.join()
            return func(*args, **(kwargs or {}))

    y = (leaf * 2).sum()
    with Mode():
        y.backward()
    assert seen["mul"] is False
    assert seen["add_"] is True, (
        "AccumulateGrad must hold Node::mutex_ while it adds to `.grad`: Lazuli takes the same lock"
    )
