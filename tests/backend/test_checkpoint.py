"""torch.utils.checkpoint: activations computed again in backward."""

import pytest
import torch
from differential import assert_same, normal
from torch.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

REENTRANT = pytest.mark.parametrize("reentrant", [True, False])


@REENTRANT
def test_gradients(reentrant):
    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        w = normal(4, 4, device=device, grad=True)
        f = lambda x, w: (x @ w).sin() * 2  # noqa: E731
        y = checkpoint(f, x, w, use_reentrant=reentrant)
        checkpoint(f, y, w, use_reentrant=reentrant).sum().backward()
        return y, x.grad, w.grad

    assert_same(differentiate, rtol=1e-5, atol=1e-5)


@REENTRANT
def test_a_sequence_of_layers(reentrant):
    def train(device):
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU()) for _ in range(4)]
        net = torch.nn.Sequential(*layers).to(device)
        x = normal(3, 4, device=device, grad=True)
        checkpoint_sequential(net, 2, x, use_reentrant=reentrant).pow(2).sum().backward()
        return x.grad, [p.grad for p in net.parameters()]

    assert_same(train, rtol=1e-4, atol=1e-5)


@REENTRANT
def test_dropout_draws_the_same_mask_again(reentrant):
    x = torch.ones(1000, device="lazuli", requires_grad=True)
    masks = []

    def layer(x):
        y = torch.nn.functional.dropout(x, 0.5)
        masks.append((y != 0).detach())
        return y

    with set_checkpoint_early_stop(False):
        checkpoint(layer, x, use_reentrant=reentrant, preserve_rng_state=True).sum().backward()
    assert len(masks) == 2
    assert torch.equal(masks[0].cpu(), masks[1].cpu())
    assert torch.equal((x.grad != 0).cpu(), masks[0].cpu())


def test_under_autocast():
    x = torch.randn(4, 4).to("lazuli").requires_grad_()
    dtypes = []

    def layer(x):
        y = x @ x
        dtypes.append(y.dtype)
        return y.float()

    with torch.autocast("lazuli"), set_checkpoint_early_stop(False):
        checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert dtypes == [torch.bfloat16] * 2
