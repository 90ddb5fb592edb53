"""Numbers and types that differed from eager's: what random programs found."""

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, assert_same_error, normal


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_range_downwards_begins_with_a_positive_zero(dtype):
    x = torch.arange(0, -8, -4, dtype=dtype, device="lazuli")
    assert not x.signbit()[0].item()
    assert (1 / x)[0].item() > 0


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (1, 1, 1)])
@pytest.mark.parametrize("value", [2.9e-27, 1e30])
def test_the_norm_of_one_number_is_its_size(shape, value):
    """Its square would vanish or overflow."""

    def run(device):
        x = torch.full(shape, -value, device=device)
        dim = None if len(shape) < 2 else 1
        return torch.linalg.vector_norm(x, 2, dim) / value, torch._foreach_norm([x])[0] / value

    assert_same(run)


@pytest.mark.parametrize("momentum", [0.0, 1e-3])
@pytest.mark.parametrize("norm", [F.batch_norm, F.instance_norm])
def test_running_statistics_hold_what_the_batchs_do_not(norm, momentum):
    """Its variance is beyond float16; a small part of it need not be."""

    def run(device):
        x = ((torch.arange(24).view(3, 2, 4) - 12) * 100).to(device, torch.float16)
        mean, var = (torch.tensor(v, dtype=x.dtype, device=device) for v in ([5.4, 6], [2.9, 9]))
        where = {"training": True} if norm is F.batch_norm else {"use_input_stats": True}
        norm(x, mean, var, momentum=momentum, **where)
        return mean, var

    assert_same(run)


@pytest.mark.parametrize("shape", [(), (1, 1), (1, 3), (3, 1)])
@pytest.mark.parametrize("name", ["sum", "mean", "nansum"])
def test_a_sum_of_one_zero_has_no_sign(device, name, shape):
    def run(device):
        x = torch.full(shape, -0.0, device=device)
        every_dims = [(), *((d,) for d in range(len(shape)))]
        return [torch.signbit(getattr(x, name)(*dims)) for dims in every_dims]

    assert_same(run)


@pytest.mark.parametrize("alpha", [0.5, 0.3, 2])
def test_a_product_of_half_precision_is_scaled_before_it_is_rounded(device, alpha):
    def run(device):
        a = torch.full((1, 4), 200.0, dtype=torch.float16, device=device)
        b = torch.full((4, 2), -100.0, dtype=torch.float16, device=device)
        bias = torch.ones(2, dtype=torch.float16, device=device)
        batches = torch.baddbmm(bias, a[None], b[None], alpha=alpha)
        return (
            torch.addmm(bias, a, b, alpha=alpha),
            batches,
            torch.addmv(bias, b.t(), a[0], alpha=alpha),
        )

    assert_same(run)


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose3d"])
def test_a_complex_convolution_of_one_sample(device, name):
    """What it returns is a view, as of real numbers, which `detach_` refuses."""
    dims = int(name[-2])

    def run(device):
        x, w = (torch.randn((*c, *[4] * dims), dtype=torch.complex64) for c in ((2,), (2, 2)))
        y = getattr(F, name)(x.to(device), w.to(device))
        with pytest.raises(RuntimeError, match="detach views in-place"):
            y.detach_()
        return y, torch.tensor(y.stride())

    assert_same(run)
    for wrong in [(3, *[4] * dims), (2, 2, 2, *[4] * dims)]:
        assert_same_error(
            lambda d, shape=wrong: getattr(F, name)(
                torch.ones(shape, dtype=torch.complex64, device=d),
                torch.ones((2, 2, *[2] * dims), dtype=torch.complex64, device=d),
            )
        )


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("given", [{}, {"stride": 2}, {"dilation": 2}, {"stride": 3}], ids=str)
def test_an_output_padding_as_wide_as_the_stride(device, dims, given):
    """Eager takes one that is narrower than the stride or than the dilation."""

    def run(device, padding):
        x = normal(1, 2, *[4] * dims, device=device)
        w = normal(2, 3, *[2] * dims, device=device)
        convolve = getattr(F, f"conv_transpose{dims}d")
        return convolve(x, w, output_padding=padding, **given)

    widest = max(given.values(), default=1)
    assert_same(lambda device: run(device, widest - 1))
    assert_same_error(lambda device: run(device, widest), RuntimeError)


BATCH_NORM_TYPES = {
    "all as the input": {},
    "float32 beside 16 bits": {"x": torch.bfloat16, "w": torch.float32, "running": torch.float32},
    "statistics in double precision": {"running": torch.float64},
    "weights of 16 bits": {"w": torch.bfloat16},
    "an input in double precision": {"x": torch.float64},
    "only some in float32": {"x": torch.float16, "w": torch.float16},
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("types", BATCH_NORM_TYPES)
def test_types_of_a_batch_norm(device, types, training):
    """Eager takes parameters of its input's type, or of float32 where the input has 16 bits."""
    given = BATCH_NORM_TYPES[types]

    def run(device):
        x = normal(3, 2, 4, device=device, dtype=given.get("x", torch.float32))
        w, b = (normal(2, device=device, dtype=given.get("w", torch.float32)) for _ in range(2))
        running = torch.ones(2, 2, device=device, dtype=given.get("running", torch.float32))
        return F.batch_norm(x, running[0], running[1], w, b, training)

    fits = types in ("all as the input", "float32 beside 16 bits")
    if fits:
        assert_same(run, rtol=2e-2, atol=2e-2)
    else:
        assert_same_error(run, RuntimeError)


def test_a_bias_of_a_layer_norm_of_another_type(device):
    def run(device):
        x = normal(2, 3, device=device, dtype=torch.bfloat16).requires_grad_()
        F.layer_norm(x, (3,), None, torch.ones(3, device=device)).sum().backward()

    assert_same_error(run, RuntimeError)


@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_powers_of_infinity_and_zero_in_float16(device, exponent):
    """There torch computes powers, elsewhere roots."""

    def run(device):
        special = [-float("inf"), -0.0, 0.0, float("inf"), 4.0, float("nan"), -1.0]
        results = []
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            x = torch.tensor(special, dtype=dtype).to(device)
            results += [x.pow(exponent), x.clone().pow_(exponent)]
            results.append(torch.pow(x, exponent, out=torch.empty_like(x)))
        return results

    assert_same(run)


def test_the_sum_of_many_equal_numbers(device):
    """Errors of one direction add up, unless sums are cut into sums of a few terms."""
    for number in (0.3, 0.7, 1.1):
        x = torch.full((100_003,), number)
        exact = x.double().sum()
        with torch.lazuli.config.patch(unplanned="never"):
            error = (x.to(device).sum().cpu().double() - exact).abs()
        assert error < 10 * torch.finfo(torch.float32).eps * exact


NUMBERS_WITHOUT_DIMENSIONS = [
    torch.tensor(65536.0),
    torch.tensor(0.3),
    torch.tensor(0.1, dtype=torch.float64),
    torch.tensor(0.3, dtype=torch.bfloat16),
    torch.tensor(7),
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("number", NUMBERS_WITHOUT_DIMENSIONS, ids=str)
def test_half_precision_beside_a_number_without_dimensions(number, dtype):
    """As second factor and divisor it counts in float32; any other is rounded first."""

    def run(device):
        x = torch.tensor([0.01, 0.3, 0.0, 1, 2, 3], dtype=dtype, device=device)
        s = number.to(device)
        quotients = [torch.div(x, s, rounding_mode=mode) for mode in (None, "floor", "trunc")]
        in_place = [x.clone().mul_(s), x.clone().div_(s)]
        lists = [*torch._foreach_mul([x], s), *torch._foreach_div([x], s)]
        return x * s, s * x, x + s, x - s, torch.maximum(x, s), quotients, in_place, lists

    assert_same(run)


def test_scaled_losses_of_half_precision():
    def run(device):
        x = torch.tensor([0.01, 0.3], dtype=torch.float16, device=device, requires_grad=True)
        (x * torch.tensor(65536.0, device=device)).sum().mul(1e-3).backward()
        return x.grad

    assert_same(run)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
@pytest.mark.parametrize("number", [300, 70000, 255])
def test_common_divisor_with_a_number_that_the_type_does_not_hold(number, dtype):
    def run(device):
        x = torch.tensor([0, 3, 100, 7, -127], dtype=dtype, device=device)
        return torch.gcd(x, torch.tensor(number, device=device))

    assert_same(run)


@pytest.mark.parametrize("of", [torch.int8, torch.int16, torch.bfloat16])
@pytest.mark.parametrize("to", [torch.float32, torch.int64])
def test_outer_product_in_the_type_of_the_result(of, to):
    def run(device):
        v = torch.tensor([100, 3, 257 if of is torch.int16 else 77]).to(device, of)
        return torch.addr(torch.zeros(3, 3, device=device, dtype=to), v, v)

    assert_same(run)


@pytest.mark.parametrize("function", [torch.complex, torch.polar])
def test_complex_numbers_have_no_parts_of_bfloat16(function):
    def run(device):
        x = torch.ones(2, device=device, dtype=torch.bfloat16)
        return function(x, x).abs()

    assert_same_error(run)


def parameters_in(dtype, shape, device):
    return [torch.linspace(0.5, 2, shape[0]).to(device, dtype).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("norm", ["group", "layer", "batch", "instance"])
@pytest.mark.parametrize("affine", ["both", "weight"])
def test_norms_of_half_precision_with_wide_parameters(norm, dtype, affine):
    def run(device):
        x = (torch.arange(48.0).view(2, 4, 6).sin() * 3).to(device, dtype).requires_grad_()
        weight, bias = parameters_in(torch.float32, (6 if norm == "layer" else 4,), device)
        w, b = weight, bias if affine == "both" else None
        y = {
            "group": lambda: F.group_norm(x, 2, w, b),
            "layer": lambda: F.layer_norm(x, (6,), w, b),
            "batch": lambda: F.batch_norm(x, None, None, w, b, training=True),
            "instance": lambda: F.instance_norm(x, None, None, w, b),
        }[norm]()
        (y * torch.arange(48.0).cos().view(2, 4, 6).to(device, dtype)).sum().backward()
        return y, x.grad, *(p.grad for p in (w, b) if p is not None)

    assert_same(run, rtol=2e-2, atol=2e-2)
