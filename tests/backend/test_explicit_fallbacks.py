"""Operators whose kernel for every device is none for ours."""

from collections import Counter

import pytest
import torch
from differential import assert_same, normal
from torch.testing import assert_close
from versions import TORCH


@pytest.mark.parametrize("exponent", [torch.int32, torch.int64, torch.float32])
def test_ldexp(exponent):
    def compute(device):
        x, e = normal(4, device=device), torch.tensor([1, 130, -3, 0], dtype=exponent).to(device)
        out = torch.empty(4, device=device)
        torch.ldexp(x, e, out=out)
        return torch.ldexp(x, e), out, x.clone().ldexp_(e)

    assert_same(compute)


@pytest.mark.skipif(TORCH >= (2, 14), reason="torch refuses both since 2.14")
def test_a_causal_mask_beside_another_one():
    def attend(device):
        q = normal(2, 2, 8, 16, device=device)
        mask = (torch.arange(64).view(8, 8) % 5 > 0).to(device)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, mask, is_causal=True)

    assert_same(attend)


def test_grid_sampler_of_the_cpu():
    def sample(device):
        x, grid = normal(1, 2, 4, 4, device=device), normal(1, 3, 3, 2, device=device)
        ops, arguments = torch.ops.aten, (0, 0, False)
        y = ops._grid_sampler_2d_cpu_fallback(x, grid, *arguments)
        out = ops._grid_sampler_2d_cpu_fallback.out(x, grid, *arguments, out=torch.empty_like(y))
        return y, out, ops._grid_sampler_2d_cpu_fallback_backward(y, x, grid, *arguments)

    assert_same(sample)


@pytest.mark.parametrize("shape", [(0,), (7,), (3,)])
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_range_without_a_step_is_written(shape):
    def fill(device):
        out = torch.zeros(shape, device=device)
        return torch.ops.aten.range.out_(0, 6, out=out), out

    assert_same(fill)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_stack_that_is_written_has_one_more_dimension(dim):
    def write(device):
        x, out = normal(2, 3, device=device), torch.empty(0, device=device)
        return torch.ops.aten._stack.out([x, x + 1], dim, out=out), out

    assert_same(write)


def test_ranges_that_torch_reads_by_address():
    def choose(device):
        x = normal(40, device=device)
        return torch.choose_qparams_optimized(x, x.numel(), 5, 0.5, 8)

    assert_same(choose)


def test_quantizing_a_weight_on_the_host():
    def quantize(device):
        weight, columns, *_ = torch.fbgemm_linear_quantize_weight(normal(4, 8, device=device))
        return weight, columns

    assert_same(quantize)


def test_packed_matrices_stay_on_the_host(device):
    packed = torch.fbgemm_pack_gemm_matrix_fp16(normal(4, 8, device=device))
    x, bias = normal(2, 8, device=device), normal(4, device=device)
    with pytest.raises(RuntimeError, match="Expected temporary cpp type wrapper"):
        torch.fbgemm_linear_fp16_weight(x, packed, bias).cpu()


def test_sobol_sequences():
    def draw(device):
        engine = torch.quasirandom.SobolEngine(3)
        state, quasi = engine.sobolstate.to(device), engine.quasi.to(device)
        points, quasi = torch._sobol_engine_draw(quasi, 4, state, 3, 0, torch.float32)
        lower = torch.ones(3, 30, 30, dtype=torch.long, device=device).tril()
        torch._sobol_engine_scramble_(state, lower, 3)
        torch._sobol_engine_ff_(quasi, 5, state, 3, 4)
        fresh = torch.zeros(3, 30, dtype=torch.long, device=device)
        return points, quasi, state, torch._sobol_engine_initialize_state_(fresh, 3)

    assert_same(draw)


def test_pruned_rows():
    def prune(device):
        mask = torch.tensor([True, False, True], device=device)
        return torch._rowwise_prune(normal(3, 4, device=device), mask, torch.int32)

    assert_same(prune)


def test_a_linear_combination_is_written_not_added(device):
    inputs, coefficients = normal(2, 3, 4, device=device), normal(5, 2, device=device)
    out = torch.full((5, 3, 4), 7.0, device=device)
    torch.ops.aten._compute_linear_combination.out(inputs, coefficients, out=out)
    expected = torch.einsum("mi,ijk->mjk", coefficients.cpu(), inputs.cpu())
    torch.testing.assert_close(out.cpu(), expected)


def test_the_kernel_for_the_backing_device_goes_before_one_for_all():
    """As torchaudio has them: its filter's kernel for all devices is a loop over samples."""
    with torch.library._scoped_library("torchaudio", "DEF") as library:
        library.define("_lfilter_core_loop(Tensor x, Tensor a, Tensor(b!) y) -> Tensor(b!)")
        library.impl("_lfilter_core_loop", lambda x, a, y: y.copy_(x + a), "CPU")
        library.impl("_lfilter_core_loop", lambda x, a, y: y.zero_(), "CompositeExplicitAutograd")

        def call(device):
            x, a, y = (
                normal(4, device=device),
                torch.ones(4).to(device),
                torch.zeros(4, device=device),
            )
            torch.ops.torchaudio._lfilter_core_loop(x, a, y)
            return y

        assert_same(call)


WRITTEN = {  # torch makes their results, and has them written
    "cummax": lambda x: torch.cummax(x, 0),
    "cummin": lambda x: torch.cummin(x, 0),
    "kthvalue": lambda x: torch.kthvalue(x, 2, -1, keepdim=True),
    "logcumsumexp": lambda x: (torch.logcumsumexp(x, -1),),
    "median": lambda x: torch.median(x, 0),
    "nanmedian": lambda x: torch.nanmedian(x, -1),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_results_that_torch_would_write_later_are_recorded(name, device, counters):
    x = normal(5, 7, device=device)
    x[1, 2], x[3, 4:6] = float("nan"), 0.5
    want = WRITTEN[name](x.cpu())
    for _ in range(3):  # so that the call is known
        for got, expected in zip(WRITTEN[name](x), want, strict=True):
            assert_close(got.cpu(), expected, equal_nan=True)
    before = counters()["external_calls"]
    got = WRITTEN[name](x)
    assert counters()["external_calls"] == before  # nothing ran
    for g, expected in zip(got, want, strict=True):
        assert_close(g.cpu(), expected, equal_nan=True)
    ran = Counter(counters()["external_calls"]) - Counter(before)
    assert any(name in call for call in ran)


@pytest.mark.parametrize("name", WRITTEN)
def test_gradients_of_results_that_torch_would_write(name):
    def compute(device):
        x = normal(5, 7, device=device).requires_grad_()
        y = WRITTEN[name](x)[0]
        y.square().sum().backward()
        return y, x.grad

    assert_same(compute)
