"""Reductions of rows of a few elements, which are computed side by side, and of longer rows."""

import itertools

import pytest
import torch
import torch.nn.functional as F

OPS = {
    "sum": lambda x: x.sum(-1),
    "mean and more": lambda x: (
        (x.mean(-1, keepdim=True) * x).tanh() + x.mean(-1, keepdim=True).pow(2)
    ),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1),
    "argmax": lambda x: (x * 2).argmax(-1),
    "argmin": lambda x: x.argmin(-1),
    "any": lambda x: (x > 1).any(-1),
    "var": lambda x: x.var(-1, correction=0),
    "norm": lambda x: x.norm(dim=-1),
    "softmax": lambda x: x.softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:], eps=0.1),
    "distances": lambda x: ((x[:, None] - x[None, :8]).square().sum(-1) + 0.1).pow(-1.5),
}
WHOLE = {"any", "argmax", "argmin"}


@pytest.mark.parametrize("length", [1, 2, 3, 8, 9, 16, 17])
@pytest.mark.parametrize("name", OPS)
def test_results_and_gradients(name, length):
    f = OPS[name]
    for rows, dtype in itertools.product((3, 16, 41), (torch.float32, torch.float64)):
        torch.manual_seed(length)
        whole = torch.randn(rows, length + 2, dtype=dtype)
        for at_once in (lambda w: w[:, :length], lambda w: w[:, 2:].flip(1)):
            results = []
            for device in ("cpu", "lazuli"):
                leaf = whole.detach().to(device).requires_grad_(name not in WHOLE)
                y = f(at_once(leaf))
                if name not in WHOLE:
                    y.cos().sum().backward()
                results.append(
                    [y.detach().cpu(), leaf.grad.cpu() if leaf.grad is not None else None]
                )
            torch.testing.assert_close(results[1], results[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
)
@pytest.mark.parametrize("length", [1, 3, 8, 11])
def test_other_types(dtype, length):
    torch.manual_seed(0)
    x = torch.randint(0, 5, (50, length)).to(dtype)
    for f in (
        lambda t: t.sum(1),
        lambda t: t.amax(1),
        lambda t: (t == 1).any(1),
        lambda t: t.prod(1),
        lambda t: t.float().argmax(1),
    ):
        for _ in range(3):
            torch.testing.assert_close(f(x.to("lazuli")).cpu(), f(x))


def test_a_program_goes_from_short_rows_to_long_ones():
    for length in (3, 5, 8, 9, 4, 64, 2):
        x = torch.randn(40, length)
        got = (x.to("lazuli").softmax(1) * 2).sum(1).cpu()
        torch.testing.assert_close(got, (x.softmax(1) * 2).sum(1))


def test_nan_and_infinity_in_short_rows():
    x = torch.tensor([[1.0, float("nan"), 2], [float("inf"), 0, -float("inf")], [0, 0, -0.0]])
    x = x.repeat(20, 1)
    for f in (
        lambda t: t.amax(1),
        lambda t: t.argmax(1),
        lambda t: t.sum(1),
        lambda t: t.logsumexp(1),
    ):
        torch.testing.assert_close(f(x.to("lazuli")).cpu(), f(x), equal_nan=True)
