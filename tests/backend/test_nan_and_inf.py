"""NaN, infinities, signed zeros and the edges of a dtype through every native elementwise op."""

import math

import numpy
import pytest
import torch
from differential import assert_same, compare, normal, run

EDGES = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0,
    1e-30, -1e-30, 1e-42, -1e-42, 1e30, -1e30, 88.8, -88.8, 104.0, -104.0, 709.9, -745.2,
    3.4e38, -3.4e38, 1e-7, -1e-7, 16777216.0, 2147483648.0, 0.9999999, 1.0000001,
]  # fmt: skip

UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor
frac isfinite isinf isnan log log10 log1p log2 logical_not logit neg reciprocal
relu round rsqrt sgn sigmoid sign sin sinh sqrt square tan tanh trunc deg2rad
nan_to_num isneginf isposinf signbit positive""".split()  # noqa: SIM905

ACTIVATIONS = """celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid
mish relu6 selu silu softplus softsign softshrink threshold""".split()  # noqa: SIM905

BINARY = """add sub mul div atan2 copysign eq ne lt le gt ge fmax fmin fmod floor_divide
hypot logical_and logical_or logical_xor maximum minimum pow remainder xlogy
nextafter ldexp true_divide""".split()  # noqa: SIM905

# |x| up to here: what an argument reduction of larger numbers gives differs between libraries.
PERIODIC = {"sin", "cos", "tan"}


def edges(device, dtype=torch.float32):
    return torch.tensor(EDGES, dtype=torch.float64).to(dtype).to(device)


TOLERANCE = {
    torch.float32: {"rtol": 4e-6, "atol": 1e-37},
    torch.float64: {"rtol": 1e-13, "atol": 1e-300},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 2e-7},
}
# Of numbers around one, in an order of one's own.
SUMS = {
    torch.float32: {"rtol": 1e-6, "atol": 1e-6},
    torch.float64: {"rtol": 1e-14, "atol": 1e-14},
    torch.bfloat16: {"rtol": 8e-3, "atol": 1e-6},
}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda t: str(t).split(".")[1])


@DTYPES
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    def compute(device):
        x = edges(device, dtype)
        if name in PERIODIC:
            x = x[(x.abs() < 1e5) | x.isnan() | x.isinf()]
        if name in ("sinh", "cosh"):  # eager's vectorized ones overflow too early
            x = x[(x.abs() < 88) | (x.abs() > 1000) | x.isnan()]
        return getattr(torch, name)(x)

    assert_same(compute, **TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name, dtype):
    function = getattr(torch.nn.functional, name)
    extra = (0.5, -3.0) if name == "threshold" else ()

    def compute(device):
        x = edges(device, dtype)
        # Eager's vectorized gelu overflows to NaN and infinity, and its scalar one does not.
        return function(x[x.abs() < 1e38] if name == "gelu" else x, *extra)

    assert_same(compute, **TOLERANCE[dtype])


@DTYPES
def test_what_tanhshrink_subtracts_cancels(dtype):
    """Its error is that of the hyperbolic tangent: a unit of the operand's last place."""
    x = torch.cat([edges("cpu", dtype), torch.linspace(-3, 3, 61).to(dtype)])
    actual = torch.nn.functional.tanhshrink(x.to("lazuli")).cpu()
    expected = torch.nn.functional.tanhshrink(x)
    finite = x.isfinite()
    torch.testing.assert_close(actual[~finite], expected[~finite], equal_nan=True)
    unit = torch.finfo(dtype).eps * x.double().abs()
    assert ((actual.double() - expected.double()).abs() <= unit)[finite].all()


@DTYPES
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    def compute(device):
        x = edges(device, dtype)
        signs = x[1:] if name == "copysign" else x  # a NaN's sign means nothing
        result = getattr(torch, name)(x[:, None], signs[None, :])
        if name in ("fmod", "remainder"):
            # Eager's vectorized ones give NaN where a quotient overflows.
            quotients = x.cpu()[:, None].float() / x.cpu()[None, :].float()
            result = torch.where(quotients.isinf().to(device), 0, result)
        return result

    assert_same(compute, **TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_are_exact(name, dtype):
    """Of quotients of any size, with C's fmod as the judge."""
    x = torch.cat([edges("cpu", dtype), torch.logspace(-30, 30, 67, dtype=torch.float64).to(dtype)])
    a, b = (t.flatten() for t in torch.meshgrid(x, x, indexing="ij"))
    actual = getattr(torch, name)(a.to("lazuli"), b.to("lazuli")).cpu()
    with numpy.errstate(invalid="ignore"):
        exact = numpy.fmod(a.double().numpy(), b.double().numpy())
    if name == "remainder":
        differ = (exact != 0) & ((exact < 0) != (b.double().numpy() < 0))
        exact = numpy.where(differ, exact + b.double().numpy(), exact)
    expected = torch.from_numpy(exact).to(dtype)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@DTYPES
def test_ternary(dtype):
    def compute(device):
        x = edges(device, dtype)
        a, b, c = x[:, None, None], x[None, :, None], x[None, None, ::3]
        return (
            torch.where(a > b, b, c),
            torch.clamp(a, b, c),
            torch.clamp(x, -1, 1),
            torch.lerp(x, x.flip(0), 0.5),
            torch.addcmul(x, x, x.flip(0), value=0.5),
            torch.addcdiv(x, x, x.flip(0), value=0.5),
        )

    assert_same(compute, **TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("rounding", ["trunc", "floor"])
def test_division_with_rounding(rounding, dtype):
    def compute(device):
        x = edges(device, dtype)
        return torch.div(x[:, None], x[None, :], rounding_mode=rounding)

    assert_same(compute, **TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize(
    "name",
    ["sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "any", "all", "var", "logsumexp",
     "softmax", "log_softmax", "cumsum", "max", "min", "nansum", "median", "sort"],
)  # fmt: skip
@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf, -0.0])
def test_reductions(name, special, dtype):
    def compute(device):
        x = torch.linspace(-2, 2, 40, dtype=torch.float64).to(dtype).view(4, 10)
        x[1, 3] = special
        x[2, :] = special
        x[3, 0] = x[3, 9] = special
        result = getattr(torch, name)(x.to(device), 1)
        return tuple(result) if isinstance(result, tuple) else result

    if name == "median" and math.isnan(special):
        pytest.skip("which of several NaN is the median is not defined")
    assert_same(compute, **SUMS[dtype])


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh", "exp", "log", "sqrt", "abs", "gelu"])
@DTYPES
def test_gradients(name, dtype):
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)

    def differentiate(device):
        x = edges(device, dtype).requires_grad_()
        function(x).sum().backward()
        return x.grad

    assert_same(differentiate, **TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["mul", "div", "pow", "maximum", "atan2", "hypot", "fmod"])
@DTYPES
def test_gradients_of_binary(name, dtype):
    def differentiate(device):
        x = edges(device, dtype)
        a = x[:, None].expand(-1, len(EDGES)).clone().requires_grad_()
        b = x[None, :].expand(len(EDGES), -1).clone().requires_grad_()
        getattr(torch, name)(a, b).backward(torch.ones_like(a))
        return a.grad, b.grad

    assert_same(differentiate, **TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_gradients_of_softmax(special, dtype):
    def differentiate(device):
        g, y = torch.linspace(-2, 2, 60, dtype=torch.float64).to(dtype).view(2, 5, 6)
        g[1, 2], g[3, 4], y[2, 1], y[3, 0], y[4, 5] = [special] * 5
        g, y = g.to(device), y.to(device)
        return [torch.ops.aten._softmax_backward_data(g, y, dim, dtype) for dim in (0, 1)]

    assert_same(differentiate, **TOLERANCE[dtype])


@DTYPES
def test_dropout_keeps_nan(dtype):
    """Also where it drops: zero times nan or infinity is nan."""
    x = torch.tensor([math.nan, math.inf], dtype=dtype).repeat_interleave(200).to("lazuli")
    x.requires_grad_()
    y, mask = torch.native_dropout(x, 0.5, True)
    y.backward(x.detach())
    expected = torch.where(mask, x, math.nan).detach()
    torch.testing.assert_close([y, x.grad], [expected, expected], equal_nan=True)
    assert 0 < mask.sum() < 400


@DTYPES
def test_gradients_of_dropout(dtype):
    def differentiate(device):
        g = edges(device, dtype)
        mask = torch.arange(len(g)).to(device) % 3 == 0
        return torch.ops.aten.native_dropout_backward(g, mask, 2.0)

    assert_same(differentiate, rtol=0, atol=0)


def test_signs_of_zeros():
    """assert_close takes 0 and -0 for equal; one divided by them is not."""

    def compute(device):
        x = torch.tensor([0.0, -0.0]).to(device)
        zeros = [x.neg(), x * -1, x + x, x - x, x.abs(), x.floor(), x.sin(), x.tanh(),
                 x.sqrt(), x.round(), x.expm1(), x.log1p(),
                 x.copysign(-x), x % 2, x.fmod(-2.0), x.trunc(), x.erf(),
                 x.relu(), torch.relu(x * 1), torch.nn.functional.relu6(x), x.clamp(0, 1),
                 x.clamp(min=0), x.clamp(max=0), torch.nn.functional.hardtanh(x, 0, 0),
                 x * 0, x * -0.0,
                 x + 0.0, x - 0.0, 0 - x, torch.zeros_like(x) + x, x - torch.zeros_like(x),
                 x.ceil(), (x - 0.3).ceil(), (x - 0.3).round(), (x - 0.3).trunc(),
                 x.sum(), x.bfloat16().float()]  # fmt: skip
        return [1 / z for z in zeros]

    assert_same(compute)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_edges_of_integers(dtype):
    def compute(device):
        info = torch.iinfo(dtype)
        x = torch.tensor([info.min, info.min + 1, 0, 1, 2, info.max - 1, info.max], dtype=dtype)
        x = x.to(device)
        y = x[:, None]
        return (
            x + 1, x - 1, -x, x.abs(), x * x, x.sign(), ~x, y & x, y | x, y ^ x, y < x, y == x,
            torch.maximum(x, y), torch.minimum(x, y), x**2, x.clamp(-5, 5), x.bool(), x.float(),
            x // 3, x % 3, x.sum(), x.max(), x.argmin(), torch.div(x, 7, rounding_mode="trunc"),
        )  # fmt: skip

    assert_same(compute)


def test_division_of_integers_by_zero():
    from differential import assert_same_error

    assert_same_error(lambda d: (torch.ones(2, dtype=torch.int64, device=d) // 0).cpu())
    assert_same_error(lambda d: (torch.ones(2, dtype=torch.int64, device=d) % 0).cpu())


def with_edges(*shape, dtype, seed):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    x.view(-1)[::5] = math.inf
    x.view(-1)[3::7] = -math.inf
    x.view(-1)[4::9] = 0
    return x


@DTYPES
@pytest.mark.usefixtures("with_and_without_plans")
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last, None])
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True), (False, False)])
def test_normalizations(given, layout, dtype):
    """Infinite weights, biases and statistics; without a layout the operand is not dense.

    In 16 bits the judge is float64: eager rounds within, and is off by up to 23 units where ours is
    the number that is nearest.
    """

    def compute(device, wide=dtype):
        def there(t):
            return t.to(wide).to(device)

        x = torch.randn(2, 12, 3, 3).to(dtype)
        w, b = (there(with_edges(12, dtype=dtype, seed=seed)) for seed in (1, 2))
        mean, variance = (there(with_edges(12, dtype=dtype, seed=seed)) for seed in (3, 4))
        x = there(x).to(memory_format=layout) if layout else there(x)[:, :, ::2, ::2]
        w, b = (p if is_given else None for p, is_given in zip((w, b), given, strict=True))
        norm = torch.nn.functional
        results = [
            norm.batch_norm(x, mean, variance.abs(), w, b, eps=0.1),
            norm.batch_norm(x, None, None, w, b, True, eps=0.1),
        ]
        if layout:
            results.append(norm.group_norm(x, 4, w, b))
        return results

    wide = torch.float64 if dtype is torch.bfloat16 else dtype
    expected, actual = run(lambda d: compute(d, wide), "cpu"), run(compute, "lazuli")
    compare(actual, [t.to(dtype) for t in expected], **SUMS[dtype])


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32])
def test_complex_sums_are_those_of_the_parts(dtype):
    """Eager multiplies by 1 + 0i first, which makes nan of infinities."""
    x = [complex(a, b) for a in (1, math.inf, -math.inf, math.nan) for b in (2, math.inf, -1)]
    x = torch.tensor(x, dtype=dtype)
    y = torch.tensor([complex(3, 4), complex(math.inf, 0), complex(0, -math.inf)], dtype=dtype)
    a, b = x[:, None], y[None, :]
    c = torch.tensor([1.0, math.inf, -2.0], dtype=torch.float32)
    for one, other in ((a, b), (a, c), (c, a), (x, 2.5), (2.5, x), (x, 1 - 2j)):
        of = [t.to("lazuli") if isinstance(t, torch.Tensor) else t for t in (one, other)]
        result = torch.result_type(one, other)
        parts = [torch.as_tensor(t).to(result) for t in (one, other)]
        parts = [torch.view_as_real(t.to(torch.complex128)) for t in parts]
        for operator in (torch.add, torch.sub):
            if not isinstance(of[0], torch.Tensor):
                actual = of[0] + of[1] if operator is torch.add else of[0] - of[1]
            else:
                actual = operator(*of)
            expected = torch.view_as_complex(operator(*parts)).to(result)
            assert actual.dtype == result
            same = torch.view_as_real(actual.cpu()), torch.view_as_real(expected)
            torch.testing.assert_close(*same, equal_nan=True, rtol=1e-3, atol=0)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_products_of_infinities_are_eagers(dtype):
    """Those of lists too: nan where eager's formula of the parts gives nan."""
    parts = [0.0, 1.0, -2.5, math.inf, -math.inf, math.nan]
    numbers = torch.tensor([complex(a, b) for a in parts for b in parts], dtype=dtype)
    drawn = torch.randint(len(numbers), (3, 2000), generator=torch.Generator().manual_seed(0))

    def compute(device):
        a, b, c = numbers[drawn].to(device)
        value = torch.tensor([2.0])
        return [
            a * b, a / b, torch.lerp(a, b, c), torch.lerp(a, b, 0.25),
            torch.addcmul(a, b, c, value=0.5), torch.addcdiv(a, b, c, value=0.5),
            torch._foreach_addcmul([a], [b], [c], 0.5),
            torch._foreach_addcmul([a], [b], [c], value),
            torch._foreach_addcmul([a], [b], [c], [2.0]),
            torch._foreach_addcdiv([a], [b], [c], value),
            torch._foreach_lerp([a], [b], [c]), torch._foreach_lerp([a], [b], [0.25]),
        ]  # fmt: skip

    def parts_of(tree):
        if isinstance(tree, list | tuple):
            return [parts_of(t) for t in tree]
        return torch.view_as_real(tree).to("cpu")

    expected, actual = (parts_of(run(compute, d)) for d in ("cpu", "lazuli"))
    compare(actual, expected, rtol=0, atol=0)


def test_complex_sums_of_finite_numbers():
    def compute(device):
        x = normal(3, 4, device=device, dtype=torch.complex64, grad=True)
        y = normal(4, 3, device=device, dtype=torch.complex64).t()
        scalar = torch.tensor(1 + 2j)
        out, both = torch.empty(0, dtype=torch.complex64, device=device), y.clone()
        both += x.detach()
        both -= 1j
        both[1:].sub_(both[:1].conj())
        torch.sub(y, x.detach().real, out=out)
        z = (x + y.conj()) - scalar + x.real
        z = 3 - z - x
        z.abs().sum().backward()
        sums = x.detach().t() + y.t(), x[0].detach() + y, x.detach()[:0] + y[:0]
        return z.detach(), x.grad, out, both, sums, y + y, torch.add(y, y, out=y.clone())

    assert_same(compute)


@pytest.mark.usefixtures("with_and_without_plans")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", [1, 7, 40])
def test_of_equal_zeros_the_first_is_the_larger_and_the_smaller(dtype, size):
    zeros = torch.tensor([-0.0, 0.0, 0.0], dtype=dtype).repeat(size, 2)
    for a in (zeros, zeros.t(), zeros[:, ::2]):
        x, y = a.to("lazuli"), -a.to("lazuli")
        for function in (torch.maximum, torch.minimum, torch.fmax, torch.fmin):
            assert torch.equal(function(x, y).cpu().signbit(), a.signbit())
            assert torch.equal(function(y, x).cpu().signbit(), ~a.signbit())
        bounds = {"min": 0.0}, {"max": 0.0}, {"min": -0.0, "max": 0.0}
        bounds += {"min": y}, {"max": y}, {"min": y, "max": y}
        for held in (x.clamp(**b) for b in bounds):
            assert torch.equal(held.cpu().signbit(), a.signbit())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nan_is_the_larger_and_the_smaller(dtype):
    def compute(device):
        x = torch.tensor([math.nan, 1.0, math.nan, 2.0, -3.0] * 9, dtype=dtype, device=device)
        y = torch.tensor([1.0, math.nan, math.nan, -2.0, 3.0] * 9, dtype=dtype, device=device)
        held = x.clamp(-1, 1), x.clamp(min=0), x.clamp(max=0), x.clamp(min=y), x.clamp(y, y + 1)
        return x.maximum(y), x.minimum(y), x.relu(), *held, torch.nn.functional.hardtanh(x)

    assert_same(compute)


def test_bessel_function():
    x = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 8.0, 8.1, -30.0, 88.0, 1e3])
    for dtype in (torch.float32, torch.float64):
        expected = torch.i0(x.to(dtype))
        for function in (torch.i0, torch.special.i0):
            actual = function(x.to(dtype).to("lazuli")).cpu()
            torch.testing.assert_close(actual, expected, equal_nan=True)
        out = torch.empty(0, dtype=dtype, device="lazuli")
        torch.i0(x.to(dtype).to("lazuli"), out=out)
        torch.testing.assert_close(out.cpu(), expected, equal_nan=True)


POLYNOMIALS = (
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_nan(name, device):
    """Degree 0 is 1 everywhere; torch's kernel returns what it never wrote for higher ones."""
    polynomial = getattr(torch.special, name)
    x, n = torch.tensor([math.nan, 0.25, 2.0]), torch.arange(-1, 8)[:, None].float()
    expected = polynomial(x, n)
    expected[2:, 0] = math.nan
    there = x.to(device), n.to(device)
    out = torch.empty(0, device=device)
    for found in (polynomial(*there), polynomial(*there, out=out)):
        torch.testing.assert_close(found.cpu(), expected, equal_nan=True)
    for degree in (0, 1, 6):
        found = polynomial(there[0], degree).cpu()
        torch.testing.assert_close(found, expected[degree + 1], equal_nan=True)
    found = polynomial(math.nan, there[1][:, 0]).cpu()
    torch.testing.assert_close(found, expected[:, 0], equal_nan=True)


@DTYPES
@pytest.mark.usefixtures("with_and_without_plans")
def test_gradient_of_logit(dtype):
    x = torch.tensor([-0.0, 0.0, 1.0, -1.0, 1.5, math.nan, math.inf, 0.25], dtype=dtype)
    g = torch.tensor([1.0, -2.0, 0.0, math.inf], dtype=dtype)[:, None]
    expected = torch.where((x < 0) | (x > 1), math.nan, g / (x * (1 - x)))
    actual = torch.ops.aten.logit_backward(g.to("lazuli"), x.to("lazuli"))
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_logits_of_infinity(reduction):
    """Eager's formula is a difference of infinities there."""
    x = torch.tensor([math.inf, -math.inf, math.inf, -math.inf, math.inf, -math.inf, 2.0, -3.0])
    t = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.25, 0.75])
    loss = torch.nn.functional.binary_cross_entropy_with_logits

    def compute(device):
        logits, target, weight = (v.to(device) for v in (x, t, torch.tensor(3.0)))
        logits.requires_grad_()
        each = loss(logits, target, pos_weight=weight, reduction="none")
        finite = loss(logits[-2:], target[-2:], reduction=reduction)
        return each, finite, torch.autograd.grad(finite.sum(), logits)[0]

    assert_same(compute)


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv_transpose2d", "conv_transpose3d"])
def test_complex_convolutions(name):
    """Infinities reach what they are multiplied with; eager's sums of parts spread them."""
    rank = int(name[-2])
    function = getattr(torch.nn.functional, name)

    def compute(device):
        x = normal(2, 3, *[5] * rank, device=device, dtype=torch.complex128, grad=True)
        w = normal(3, 3, *[2] * rank, device=device, dtype=torch.complex128, grad=True)
        b = normal(3, device=device, dtype=torch.complex128, grad=True)
        y = function(x, w, b, stride=2)
        y.abs().sum().backward()
        with torch.inference_mode():
            alone = function(x.detach().clone()[0], w.detach().conj(), padding=1)
        return y, x.grad, w.grad, b.grad, alone

    assert_same(compute)
    x = torch.zeros(1, 1, *[4] * rank, dtype=torch.complex64)
    x.view(-1)[0] = complex(math.inf, 1)
    w = torch.full((1, 1, *[2] * rank), 2 + 1j, dtype=torch.complex64)
    y = function(x.to("lazuli"), w.to("lazuli")).cpu().view(-1)[0]
    assert torch.view_as_real(y).tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_of_float64_multiply_their_padding(dims, transposed):
    def convolve(device):
        torch.manual_seed(0)
        x = torch.randn(2, 3, *[4] * dims, dtype=torch.float64)
        w = torch.randn(3, 3, *[3] * dims, dtype=torch.float64)
        w.view(-1)[0] = math.nan
        x, w = x.to(device).requires_grad_(), w.to(device).requires_grad_()
        name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
        y = getattr(torch.nn.functional, name)(x, w, padding=1)
        y.square().sum().backward()
        return y.detach(), x.grad, w.grad

    assert_same(convolve)


@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_powers_that_are_roots(exponent):
    """Eager takes the root however the power is written, unless the exponent is a tensor."""

    def powers(device):
        x = torch.tensor([-math.inf, -4.0, -0.0, 0.0, 4.0], device=device)
        augmented = x.clone()
        augmented **= exponent
        return (
            x**exponent,
            augmented,
            x.clone().pow_(exponent),
            torch.pow(x, exponent, out=torch.empty(5, device=device)),
            *torch._foreach_pow([x], exponent),
            x.clone().pow_(torch.tensor(exponent)),
        )

    for got, want in zip(powers("lazuli"), powers("cpu"), strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)
        numbers = ~want.isnan()
        assert torch.equal(got.cpu()[numbers].signbit(), want[numbers].signbit())


@pytest.mark.parametrize(
    "numbers",
    [{}, {"nan": 2.5}, {"nan": math.inf, "posinf": -1.0}, {"posinf": 1e300, "neginf": math.nan}],
    ids=str,
)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_replaced_numbers(dtype, numbers, counters):
    def replace(device):
        x = edges(device, dtype).requires_grad_()
        y = x.nan_to_num(**numbers)
        y.backward(torch.ones_like(y))
        return y, x.grad

    assert_same(replace)
    assert counters()["external_calls"] == {}
