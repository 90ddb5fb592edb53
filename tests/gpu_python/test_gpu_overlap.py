"""Kernels that follow each other closely: each starts while those before it run.

All numbers are small whole ones, so that every order of a sum gives the same. The matrix `x` makes
kernels take longer than their launches; the vector `v`, which every block reads, stays in the
multiprocessors' own caches, where what another kernel has written since must not be missed.
"""

import pytest
import torch

STEPS = 60


def sums(x, v):
    """Kernels of our own, which reduce in two launches, in one, and not at all."""
    x = (x + v + x.sum(0)) % 13
    x = (x + x.sum(1, keepdim=True)) % 7
    return (x.t().contiguous() * 3 + x.amax()).t() % 11, (v + x.sum(0)) % 5


def updated(x, v):
    """The vector is read by all, then changed by a kernel of few blocks, then read by all."""
    x = (x + v) % 13
    v.add_(x.sum(0)).remainder_(7)
    x = (x * v) % 11
    v.sub_(x.amax(0)).remainder_(5)
    return x, v


def in_place(x, v):
    """Reads of the same memory before and after it is written."""
    before = x.sum(1)
    x.add_(v).remainder_(9)
    after = x.sum(1)
    x[::2] += (after - before).remainder(5)[::2, None]
    v += after.amax() - before.amin()
    return x, v.remainder_(7)


def products(x, v):
    """Products of the library between them."""
    square = x.t() @ x
    return (x @ (square % 5) + x.sum(0) + v) % 11, (square @ v + v) % 7


def foreign(x, v):
    """Kernels of torch's between them."""
    x = (x.sort(0).values + x.sum(0) + torch.special.i0(x * 0) + v) % 13
    return x, v.flip(0).sort().values + x.amin(0)


@pytest.mark.parametrize("shape", [(64, 64), (2048, 256), (4096, 1024)], ids=str)
@pytest.mark.parametrize("step", [sums, updated, in_place, products, foreign])
def test_every_kernel_sees_what_was_written_before(step, shape):
    start = torch.randint(0, 7, shape).float()
    results = {}
    for device in ("cuda", "lazuli"):
        x = start.to(device)
        v = torch.arange(shape[1], device=device, dtype=torch.float32) % 3
        seen = []
        for _ in range(STEPS):
            x, v = step(x, v)
            seen.append(torch.stack([x.sum(0), v]))
        results[device] = torch.stack(seen).cpu()
    assert torch.equal(results["lazuli"], results["cuda"])


def test_weights_that_a_step_reads_and_updates():
    """A network in float32, whose kernels are launched faster than they run."""

    def losses(device):
        torch.manual_seed(0)
        layers = [
            part
            for _ in range(8)
            for part in (torch.nn.Linear(768, 768), torch.nn.LayerNorm(768), torch.nn.GELU())
        ]
        model = torch.nn.Sequential(*layers).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        x = torch.randn(2048, 768).to(device)
        kept = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = (model(x) - x).square().mean()
            loss.backward()
            optimizer.step()
            kept.append(loss.detach())
        return torch.stack(kept).cpu()

    torch.testing.assert_close(losses("lazuli"), losses("cuda"), rtol=1e-4, atol=0)
