"""Linear layers whose weights have four bits: torch's packed products, and formulas that unpack."""

import os
import subprocess
import sys

import pytest
import torch
from differential import assert_same, normal
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("planned_at_once")

aten = torch.ops.aten
TOLERANCES = {torch.float32: 2e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}


def packed(rows, depth, group, dtype):
    """Numbers of four bits as torch packs them, scales and zeros, and the matrix in float64."""
    numbers = torch.randint(0, 16, (rows, depth), dtype=torch.int32)
    factors = torch.randn(depth // group, rows, 2).to(dtype) / 16
    scales, zeros = (factors.double()[..., i].t()[..., None] for i in range(2))
    matrix = (numbers.double() - 8).view(rows, -1, group) * scales + zeros
    weights = aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
    return weights, factors, matrix.view(rows, depth)


def check(x, weights, group, factors, matrix):
    """Against float64: eager's order of sums is its own affair."""
    y = aten._weight_int4pack_mm_for_cpu(
        x.to("lazuli"), weights.to("lazuli"), group, factors.to("lazuli")
    )
    assert y.dtype == x.dtype
    expected, most = x.double() @ matrix.t(), x.double().abs() @ matrix.abs().t()
    assert ((y.cpu() - expected).abs() / most).max() < TOLERANCES[x.dtype]


# Rows: of whole blocks, with some that remain, and of none.
@pytest.mark.parametrize("rows", [16, 48, 64, 96, 304])
@pytest.mark.parametrize("group", [32, 256])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 33])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_packed_product(dtype, count, group, rows, counters):
    weights, factors, matrix = packed(rows, 512, group, dtype)
    x = torch.randn(count, 512).to(dtype)
    check(x, weights, group, factors, matrix)
    assert not torch.lazuli.metrics()["external_calls"]


@pytest.mark.parametrize("capability", ["default", "avx2", "avx512"])
@pytest.mark.parametrize("cpu", ["", "avx2"])
def test_other_processors_order(capability, cpu):
    """Torch packs for the processor that it computes on; our kernels follow."""
    if cpu and capability == "avx512":
        pytest.skip("LAZULI_CPU=avx2 holds torch to AVX2, too")
    code = (
        "import sys; sys.path.insert(0, '.'); sys.path.insert(0, 'backend')\n"
        "import torch, test_int4_weights as t\n"
        "for rows in (16, 48, 160):\n"
        "    for count in (1, 3, 7):\n"
        "        weights, factors, matrix = t.packed(rows, 256, 64, torch.float32)\n"
        "        t.check(torch.randn(count, 256), weights, 64, factors, matrix)\n"
        "assert not torch.lazuli.metrics()['external_calls']\n"
    )
    environment = os.environ | {"ATEN_CPU_CAPABILITY": capability, "LAZULI_CPU": cpu}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=_tests())


def _tests():
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def test_packing_on_the_device(counters):
    numbers = torch.randint(0, 16, (96, 128), dtype=torch.int32)
    expected = aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
    given = aten._convert_weight_to_int4pack_for_cpu(numbers.to("lazuli"), 1)
    assert given.device.type == "lazuli"
    assert torch.equal(given.cpu(), expected)


def test_what_is_not_taken_fails_as_on_the_cpu():
    weights, factors, _ = packed(64, 128, 64, torch.float32)
    x = torch.randn(2, 128)
    cases = [
        (x[:, :96].contiguous(), weights, 64, factors),
        (x, weights, 48, factors),
        (x, weights.to(torch.int32), 64, factors),
        (x.to(torch.float64), weights, 64, factors.double()),
    ]
    for case in cases:
        errors = []
        for device in ("cpu", "lazuli"):
            moved = [a.to(device) if isinstance(a, torch.Tensor) else a for a in case]
            with pytest.raises(RuntimeError) as raised:
                aten._weight_int4pack_mm_for_cpu(*moved).cpu()
            errors.append(str(raised.value).splitlines()[0])
        assert errors[0] == errors[1]


ROWS, DEPTH = 304, 512


def nibbles(device, *shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8).to(device)


def halves_stacked(x, device):
    """Two weights side by side in a byte."""
    p = nibbles(device, ROWS, DEPTH // 2)
    return x @ (torch.stack([p & 15, p >> 4], -1).reshape(ROWS, DEPTH).to(x.dtype) - 8).t()


def halves_apart(x, device):
    """The first half of a row in the low halves of bytes, the second in the high ones."""
    p = nibbles(device, ROWS, DEPTH // 2)
    return x @ (torch.cat([p & 15, p >> 4], 1).to(x.dtype) - 8).t()


def in_groups(x, device):
    p, scales = nibbles(device, ROWS, DEPTH // 2), torch.rand(ROWS, DEPTH // 64, 1).to(device)
    numbers = torch.stack([p & 15, p >> 4], -1).reshape(ROWS, -1, 64).to(x.dtype) - 8
    return F.linear(x, (numbers * scales.to(x.dtype)).reshape(ROWS, DEPTH))


def awq(x, device):
    """Eight weights of a row in an int32, in AWQ's order, with zeros that are packed alike."""
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7]).to(device)
    shifts = torch.arange(0, 32, 4).to(device)[order].to(torch.int32)

    def unpack(p):
        return (p[..., None] >> shifts & 15).reshape(p.shape[0], -1)

    full = 2**31
    w = torch.randint(-full, full, (DEPTH, ROWS // 8), dtype=torch.int32).to(device)
    zeros = torch.randint(-full, full, (DEPTH // 64, ROWS // 8), dtype=torch.int32).to(device)
    scales = torch.rand(DEPTH // 64, ROWS).to(device).to(x.dtype)
    numbers = unpack(w) - unpack(zeros).repeat_interleave(64, 0)
    return x @ (numbers.to(x.dtype) * scales.repeat_interleave(64, 0))


def by_table(x, device):
    """Sixteen values of a table by index, with a scale a block, as bitsandbytes has them."""
    table = torch.linspace(-1, 1, 16).to(device)
    p = nibbles(device, ROWS * DEPTH // 2, 1)
    numbers = table[torch.cat([p >> 4, p & 15], 1).reshape(-1).long()]
    scales = torch.rand(ROWS * DEPTH // 64).to(device)
    return F.linear(x, (numbers.view(-1, 64) * scales[:, None]).view(ROWS, DEPTH).to(x.dtype))


FORMULAS = [halves_stacked, halves_apart, in_groups, awq, by_table]


@pytest.mark.parametrize("count", [1, 4, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("formula", FORMULAS)
def test_formula(formula, dtype, count, counters):
    def run(device):
        return formula(normal(count, DEPTH, device=device).div(DEPTH).to(dtype), device)

    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    assert_same(run, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_leave_no_matrix_in_memory(formula, counters):
    global ROWS, DEPTH
    rows, depth = ROWS, DEPTH
    ROWS, DEPTH = 1024, 1024
    try:
        for _ in range(3):
            x = normal(1, DEPTH, device="lazuli")
            torch.lazuli.synchronize()
            before = torch.lazuli.memory_allocated()
            torch.lazuli.reset_peak_memory_stats()
            y = formula(x, "lazuli")
            torch.lazuli.synchronize()
            grown = torch.lazuli.max_memory_allocated() - before
            del y
        assert grown < 2 * ROWS * DEPTH, grown / (ROWS * DEPTH)
    finally:
        ROWS, DEPTH = rows, depth
