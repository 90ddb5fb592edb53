"""Matrix products of float64, which the BLAS inside torch computes where there is one."""

import ctypes
import math
from pathlib import Path

import pytest
import torch
from differential import assert_same, normal


def double(*shape, device, grad=False):
    return normal(*shape, device=device, dtype=torch.float64, grad=grad)


def same(function, **options):
    return assert_same(function, rtol=1e-11, atol=1e-11, **options)


def has_blas() -> bool:
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    return hasattr(ctypes.CDLL(str(library)), "dgemm_")


# The operands' shapes, and what is multiplied of them.
LAYOUTS = {
    "plain": ((19, 33), (33, 21), lambda a, b: a @ b),
    "large": ((150, 301), (301, 130), lambda a, b: a @ b),
    "first transposed": ((33, 19), (33, 21), lambda a, b: a.t() @ b),
    "second transposed": ((19, 33), (21, 33), lambda a, b: a @ b.t()),
    "both transposed": ((33, 19), (21, 33), lambda a, b: a.t() @ b.t()),
    "sliced": ((40, 50), (60, 41), lambda a, b: a[3:22, 5:38] @ b[7:40, :21]),
    "sliced and transposed": ((40, 50), (60, 41), lambda a, b: a[:33, 4:9].t() @ b[7:28, 8:].t()),
    "stepped rows": ((38, 33), (66, 21), lambda a, b: a[::2] @ b[1::2]),
    "stepped columns": ((19, 66), (33, 42), lambda a, b: a[:, ::2] @ b[:, 1::2]),
    "expanded": ((33,), (33, 21), lambda a, b: a.expand(19, 33) @ b),
    "expanded columns": ((19, 1), (33, 21), lambda a, b: a.expand(19, 33) @ b),
    "windows": ((60,), (8, 21), lambda a, b: a.as_strided((19, 8), (2, 1)) @ b),
    "one row": ((1, 33), (33, 21), lambda a, b: a @ b),
    "one column": ((19, 33), (33, 1), lambda a, b: a @ b),
    "one column, stepped": ((19, 33), (33, 7), lambda a, b: a @ b[:, 3:4]),
    "outer": ((19, 1), (1, 21), lambda a, b: a @ b),
    "batches": ((6, 17, 16), (6, 16, 18), lambda a, b: a @ b),
    "many small batches": ((200, 4, 16), (200, 16, 5), lambda a, b: a @ b),
    "transposed batches": ((6, 16, 17), (6, 18, 16), lambda a, b: a.mT @ b.mT),
    "shared second": ((6, 17, 16), (16, 18), lambda a, b: a @ b),
    "shared first": ((17, 16), (6, 16, 18), lambda a, b: a @ b),
    "broadcast batches": ((3, 1, 7, 16), (4, 16, 5), lambda a, b: a @ b),
    "stepped batches": ((6, 17, 16), (9, 16, 18), lambda a, b: a[::2] @ b[::3]),
    "heads": (
        (2, 10, 3, 16),
        (2, 12, 3, 16),
        lambda a, b: a.permute(0, 2, 1, 3) @ b.permute(0, 2, 3, 1),
    ),
    "batch inside": (
        (17, 16, 6),
        (16, 18, 6),
        lambda a, b: a.permute(2, 0, 1) @ b.permute(2, 0, 1),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name, counters):
    first, second, product = LAYOUTS[name]

    def differentiate(device):
        a, b = double(*first, device=device, grad=True), double(*second, device=device, grad=True)
        y = product(a, b)
        pulled = torch.autograd.grad(y.square().sum(), (a, b), create_graph=True)
        twice = torch.autograd.grad(sum(g.square().sum() for g in pulled), (a, b))
        return y, pulled, [g / 1e4 for g in twice]

    same(differentiate, ignore=("stride",))
    assert counters()["external_calls"] == {}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_blas_computes(name, tmp_path):
    if not has_blas():
        pytest.skip("this torch has no BLAS inside")
    first, second, product = LAYOUTS[name]
    a, b = double(*first, device="lazuli"), double(*second, device="lazuli")
    # The tangent is for a trace that no other test has compiled.
    with torch.lazuli.config.patch(debug=f"plan:{tmp_path}"):
        product(a, b).tan().cpu()
    plans = "".join(file.read_text() for file in tmp_path.rglob("*plan*"))
    # An outer product is a multiplication.
    assert ("dgemm:blas" in plans) == (name != "outer"), plans
    assert "gemm:own" not in plans, plans


CHAINS = {
    "linear": lambda x, w, b: (x @ w + b).relu(),
    "gelu": lambda x, w, b: torch.nn.functional.gelu(x @ w + b),
    "scaled": lambda x, w, b: torch.addmm(b, x, w, beta=0.5, alpha=2).tanh(),
    "residual": lambda x, w, b: x + (x @ w[:, :1] * b).sum(1, keepdim=True),
    "transposed result": lambda x, w, b: ((x @ w).t() * 3).sigmoid() @ x,
    "two products": lambda x, w, b: (x @ w).relu() @ (w.t() * 2) + x,
    "of itself": lambda x, w, b: x @ x.t() @ x,
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_what_follows_a_product(name, rows):
    def differentiate(device):
        shapes = (rows, 24), (24, 40), (40,)
        operands = [double(*shape, device=device, grad=True) for shape in shapes]
        y = CHAINS[name](*operands)
        return y, torch.autograd.grad(y.sin().sum(), operands, allow_unused=True)

    same(differentiate, ignore=("stride",))


@pytest.mark.parametrize(
    "shapes",
    [((3, 0), (0, 5)), ((0, 4), (4, 5)), ((3, 4), (4, 0)), ((2, 3, 0), (2, 0, 5))],
    ids=str,
)
def test_empty(shapes):
    same(lambda device: double(*shapes[0], device=device) @ double(*shapes[1], device=device) + 1)


def test_into_a_tensor():
    def compute(device):
        a, b = double(7, 9, device=device), double(9, 5, device=device)
        out, columns = (
            torch.ones(7, 5, dtype=a.dtype, device=device),
            torch.ones(5, 7, dtype=a.dtype, device=device),
        )
        torch.mm(a, b, out=out)
        torch.mm(a, b, out=columns.t())
        out.addmm_(a, b, beta=-2)
        part = torch.ones(9, 11, dtype=a.dtype, device=device)
        part[1:8, 2:7] = a @ b
        return out, columns, part

    same(compute)


def test_a_result_that_holds_nan_is_overwritten():
    def compute(device):
        a, b = double(40, 30, device=device), double(30, 50, device=device)
        out = torch.full((40, 50), math.nan, dtype=a.dtype, device=device)
        torch.mm(a, b, out=out)
        return out, torch.addmm(torch.full_like(out, math.nan), a, b, beta=0)

    same(compute)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan], ids=str)
@pytest.mark.parametrize("size", [5, 64])
def test_infinity_and_nan(value, size):
    def compute(device):
        a, b = double(size, size, device=device), double(size, size, device=device)
        a[1, 2] = value
        a[3, 4] = 0
        b[2, 3] = 0  # times infinity
        b[4, 1] = value
        return a @ b, a.t() @ b, a @ b.t(), (a @ b).relu()

    same(compute)


def test_integers_are_no_floats():
    def compute(device):
        a = torch.arange(35, device=device).view(5, 7) + 2**60
        return a @ a.t()

    same(compute)
