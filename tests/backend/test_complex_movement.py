"""Operators that move complex numbers or add them up, which do so with their parts."""

import pytest
import torch
from differential import assert_no_external_call, assert_same, assert_same_error, normal

MOVES = {
    "cat": lambda z: torch.cat([z, z[:1], z.conj()]),
    "cat_last": lambda z: torch.cat([z, z], -1),
    "stack": lambda z: torch.stack([z, 2 * z], 1),
    "flip": lambda z: z.flip(-1, 0),
    "roll": lambda z: z.roll((1, 2), (0, -1)),
    "roll_all": lambda z: z.roll(3),
    "pad": lambda z: torch.nn.functional.pad(z, (1, 2, 0, 1)),
    "pad_with_one": lambda z: torch.nn.functional.pad(z, (1, 2), value=1.0),
    "index_select": lambda z: z.index_select(-1, torch.tensor([2, 0, 2], device=z.device)),
    "slice": lambda z: z[1:, ::2] * 2,
    "select": lambda z: z[1] * z[:, -1, None],
    "where": lambda z: torch.where(z.real > 0, z, z * 1j),
    "masked_fill": lambda z: z.masked_fill(z.imag > 0, 0),
    "masked_fill_tensor": lambda z: z.masked_fill(z.imag > 0, torch.tensor(1j, device=z.device)),
    "masked_fill_row": lambda z: z.masked_fill((z.imag > 0)[0], 2),
    "sum": lambda z: z.sum(),
    "sum_dim": lambda z: z.sum(-1, keepdim=True) + z.sum((0, 1)),
    "sum_of_one": lambda z: z[0, 0].sum() + z[0, 0].sum(0) + z[0, 0].mean(-1),
    "sum_type": lambda z: z.sum(0, dtype=torch.complex128),
    "sum_transposed": lambda z: z.t().sum(0),
    "mean": lambda z: z.mean() + z.mean(0),
    "complex": lambda z: torch.complex(z.real.t(), z.imag[:1].t()),
    "complex_of_one": lambda z: torch.complex(z.real, z.imag),
    "zeros": lambda z: z + torch.zeros_like(z) + torch.full_like(z, 2 - 1j) + z.new_ones(z.shape),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", MOVES)
def test_as_on_the_cpu(name, dtype):
    def step(device):
        parts = normal(2, 4, 5, device="cpu", dtype=torch.float64)
        z = torch.complex(*parts).to(dtype).to(device).requires_grad_()
        results = []
        for _ in range(3):
            y = MOVES[name](z)
            y = y.resolve_conj()
            results += [y, *torch.autograd.grad(y.abs().square().sum(), [z], allow_unused=True)]
        return [r for r in results if r is not None]

    assert_same(step, rtol=1e-4, atol=1e-5)


def test_writes():
    def step(device):
        z = torch.complex(*normal(2, 4, 5, device="cpu")).to(device)
        window = torch.zeros(8, 5, dtype=z.dtype, device=device)
        window[::2].fill_(2 - 1j)
        window[1, 1:4].zero_()
        window[1::2].masked_fill_(z.real > 0, 0)
        z.masked_fill_(z.imag > 0, 0)
        whole = torch.ones(3, dtype=torch.complex128, device=device).fill_(1.5)
        return window, z, whole, window._version, z._version

    assert_same(step)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.sum(2),
        lambda z: torch.cat([z, z[0]]),
        lambda z: z.flip(3),
        lambda z: z.sum((0, 0)),
    ],
)
def test_what_eager_refuses(function):
    def step(device):
        return function(torch.complex(*normal(2, 4, 5, device="cpu")).to(device))

    assert_same_error(step)


def test_no_call_of_torchs_kernels():
    def step(device):
        z = torch.complex(*normal(2, 4, 6, device="cpu")).to(device).requires_grad_()
        y = torch.zeros(4, 8, dtype=z.dtype, device=device)
        y[:, 1:4] = z[:, ::2]
        w = (
            torch.cat([y[1:], z.roll(1, 0)[:, :4].repeat(1, 2)]).sum(0)
            + torch.complex(z.real, z.imag).mean()
        )
        return torch.autograd.grad(w.abs().sum(), [z])

    assert_no_external_call(step)
    assert_same(step, rtol=1e-4, atol=1e-4)
