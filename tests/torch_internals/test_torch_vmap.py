"""backend/torch_internals/vmap.h"""

import torch
from torch._vmap_internals import _vmap


def sizes_inside(ask, vmap, of_func):
    seen = []

    def note(t):
        seen.append((ask.vmap_size(t, of_func), ask.vmap_size(t, not of_func)))
        return t * 2

    vmap(note)(torch.ones(3, 2, device="lazuli"))
    assert ask.vmap_size(torch.ones(3, 2, device="lazuli"), of_func) == -1
    return seen


def test_torch_func_batches_with_functorchs_tensors(ask, device):
    assert sizes_inside(ask, torch.func.vmap, True) == [(3, -1)], (
        "torch.func.vmap must wrap in at::functorch::BatchedTensorImpl, with the level and the "
        "dimension that maybeGetBatchedImpl shows"
    )


def test_autograd_batches_with_the_older_tensors(ask, device):
    assert sizes_inside(ask, _vmap, False) == [(3, -1)], (
        "torch.autograd must batch gradients in at::BatchedTensorImpl of LegacyBatchedTensorImpl.h"
    )


def test_batched_gradients_come_from_the_older_vmap(ask):
    x = torch.ones(2, requires_grad=True)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(ask.vmap_size(g, False)))
    torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True)
    assert seen == [2], "is_grads_batched must use torch._vmap_internals"
