"""Products of matrices of a few elements, in any strides, and of the sizes beside them."""

import itertools

import pytest
import torch

BATCHES = [(), (1,), (5,), (70,), (3, 4), (3, 1, 2)]
SIZES = [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (3, 3, 1), (1, 4, 4), (4, 2, 3), (1, 8, 16)]
SIZES += [(5, 5, 5), (6, 6, 6), (2, 9, 2), (8, 8, 2), (9, 1, 9)]
LAYOUTS = {
    "plain": lambda t: t,
    "transposed": lambda t: t.mT.contiguous().mT,
    "apart": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "flipped": lambda t: t.flip(-2),
}


def agree(f, operands, tolerance):
    results = []
    for device in ("cpu", "lazuli"):
        leaves = [t.detach().to(device).requires_grad_() for t in operands]
        y = f(*leaves)
        grads = torch.autograd.grad(y.sin().sum(), leaves)
        results.append([t.detach().cpu() for t in (y, *grads)])
    torch.testing.assert_close(results[1], results[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layouts", [*itertools.product(LAYOUTS, repeat=2)], ids="-".join)
def test_sizes_and_layouts(size, layouts, dtype):
    m, k, n = size
    torch.manual_seed(0)
    for batch in BATCHES:
        a, b = torch.randn(*batch, m, k, dtype=dtype), torch.randn(*batch, k, n, dtype=dtype)

        def f(a, b):
            return LAYOUTS[layouts[0]](a) @ LAYOUTS[layouts[1]](b)

        agree(f, (a, b), 1e-5 if dtype == torch.float32 else 1e-12)


def test_what_follows_a_product():
    torch.manual_seed(0)
    a, b, c = torch.randn(40, 3, 3), torch.randn(40, 3, 3), torch.randn(3)
    agree(lambda a, b, c: (a @ b + c).relu() * 2, (a, b, c), 1e-5)
    agree(lambda a, b, c: torch.baddbmm(c, a, b, beta=0.5, alpha=2).tanh(), (a, b, c), 1e-5)
    agree(lambda a, c: torch.einsum("bij,j->bi", a, c).exp(), (a, c), 1e-5)


def test_one_matrix_for_many():
    torch.manual_seed(0)
    points, turn = torch.randn(500, 3), torch.randn(3, 3)
    agree(lambda p, t: p @ t.T, (points, turn), 1e-5)
    agree(lambda p, t: (t.expand(500, 3, 3) @ p[..., None])[..., 0], (points, turn), 1e-5)


def test_a_chain_and_its_second_derivative():
    torch.manual_seed(0)
    turns = torch.randn(6, 20, 3, 3, dtype=torch.float64) / 2

    def f(turns):
        whole = torch.eye(3, dtype=turns.dtype, device=turns.device).expand(20, 3, 3)
        for turn in turns:
            whole = whole @ turn
        return whole

    results = []
    for device in ("cpu", "lazuli"):
        leaf = turns.to(device).requires_grad_()
        (first,) = torch.autograd.grad(f(leaf).sin().sum(), leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), leaf)
        results.append(second.cpu())
    torch.testing.assert_close(results[1], results[0])


def test_many_products_on_several_threads():
    torch.manual_seed(0)
    a, b = torch.randn(30_000, 3, 3), torch.randn(30_000, 3, 3)
    got = (a.to("lazuli") @ b.to("lazuli")).cpu()
    torch.testing.assert_close(got, a @ b, rtol=1e-5, atol=1e-5)


def test_nan_and_infinity_stay_where_they_are():
    a = torch.eye(3).repeat(20, 1, 1)
    a[3, 0, 0], a[5, 1, 1] = float("nan"), float("inf")
    b = torch.ones(20, 3, 3)
    torch.testing.assert_close((a.to("lazuli") @ b.to("lazuli")).cpu(), a @ b, equal_nan=True)
