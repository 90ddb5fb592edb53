"""What follows a product or a convolution is computed with it: for every layout of its operand."""

import pytest
import torch
from differential import assert_same, normal
from torch import nn

F = torch.nn.functional

PRODUCTS = {
    "mm": (lambda d: normal(8, 3, device=d) @ normal(3, 4, device=d), (8, 4)),
    "mm of a transpose": (
        lambda d: normal(3, 8, device=d).t() @ normal(4, 3, device=d).t(),
        (8, 4),
    ),
    "row": (lambda d: normal(1, 30, device=d) @ normal(30, 4, device=d), (1, 4)),
    "column": (lambda d: normal(8, 30, device=d) @ normal(30, 1, device=d), (8, 1)),
    "bmm of one": (lambda d: normal(1, 8, 3, device=d) @ normal(1, 3, 4, device=d), (1, 8, 4)),
    "bmm": (lambda d: normal(5, 8, 3, device=d) @ normal(5, 3, 4, device=d), (5, 8, 4)),
    "batches": (
        lambda d: normal(2, 5, 8, 3, device=d) @ normal(2, 5, 3, 4, device=d),
        (2, 5, 8, 4),
    ),
    "linear": (
        lambda d: F.linear(normal(2, 8, 3, device=d), normal(4, 3, device=d), normal(4, device=d)),
        (2, 8, 4),
    ),
    "conv2d": (
        lambda d: F.conv2d(normal(2, 3, 6, 6, device=d), normal(8, 3, 3, 3, device=d)),
        (2, 8, 4, 4),
    ),
    "conv2d channels-last": (
        lambda d: F.conv2d(
            normal(2, 3, 6, 6, device=d).contiguous(memory_format=torch.channels_last),
            normal(8, 3, 3, 3, device=d),
            normal(8, device=d),
        ),
        (2, 8, 4, 4),
    ),
}


def full(shape, device):
    return normal(*shape, device=device)


def strided(shape, device):
    """Every dimension is a slice of a larger one."""
    larger = normal(*[n + 2 for n in shape], device=device)
    return larger[tuple(slice(1, 1 + n) for n in shape)]


def stepped(shape, device):
    larger = normal(*[2 * n for n in shape], device=device)
    return larger[tuple(slice(0, None, 2) for _ in shape)]


def reversed_order(shape, device):
    return normal(*reversed(shape), device=device).permute(tuple(reversed(range(len(shape)))))


LAYOUTS = (full, strided, stepped, reversed_order)


def broadcasts(shape):
    """The shape with each set of dimensions replaced by 1, and with leading ones left out."""
    for mask in range(2 ** len(shape)):
        yield tuple(1 if mask >> d & 1 else n for d, n in enumerate(shape))
    for d in range(1, len(shape) + 1):
        yield tuple(shape[d:])


FOLLOWERS = {
    "add": lambda y, x: y + x,
    "mul": lambda y, x: y * x,
    "residual of relu": lambda y, x: (y + x).relu(),
    "gelu then mul": lambda y, x: F.gelu(y) * x,
    "hardtanh of a sum": lambda y, x: F.hardtanh(y + x, -0.3, 0.6),
    "leaky relu then add": lambda y, x: F.leaky_relu(y, 0.2) + x,
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("follower", FOLLOWERS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_operand(product, follower, layout):
    make, shape = PRODUCTS[product]
    for other in dict.fromkeys(broadcasts(shape)):

        def compute(device, other=other):
            x = layout(other, device)
            return FOLLOWERS[follower](make(device), x)

        assert_same(compute, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["relu", "gelu", "sigmoid", "tanh", "silu"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_activation(product, name):
    function = getattr(F, name)
    assert_same(lambda d: function(PRODUCTS[product][0](d) * 0.5 + 1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_product_itself_is_read_too(product):
    def compute(device):
        y = PRODUCTS[product][0](device)
        return y, y.relu(), y * y, (y + 1).sum()

    assert_same(compute, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("later", ["mm", "linear", "row sums"])
def test_an_operand_that_is_made_after_the_product(later):
    def compute(device):
        a, b = normal(64, 64, device=device), normal(64, 64, device=device)
        y = a @ b
        x = {
            "mm": lambda: b @ a,
            "linear": lambda: F.linear(b, a).relu(),
            "row sums": lambda: b.exp().sum(1, keepdim=True),
        }[later]()
        return y + x

    with torch.lazuli.config.patch(tiers="plans"):  # in parts the two would be planned apart
        assert_same(compute, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("product", ["mm", "bmm", "linear", "conv2d"])
def test_bfloat16(product):
    make, shape = PRODUCTS[product]

    def compute(device):
        with torch.autocast(device, dtype=torch.bfloat16):
            return F.gelu(make(device) + stepped(shape, device).bfloat16())

    assert_same(compute, rtol=5e-2, atol=1e-1)


CHAINS = {
    "bias": lambda y, b, x: y + b,
    "bias and residual": lambda y, b, x: y + b + x,
    "gelu of bias": lambda y, b, x: F.gelu(y + b),
    "gate": lambda y, b, x: F.silu(y + b) * x,
    "four ops": lambda y, b, x: ((y + x).tanh() + b).relu(),
    "four products": lambda y, b, x: y * b * x * b * x,
    "what rounding took away": lambda y, b, x: (y + b) - y,
}
NARROW_PRODUCTS = {
    "mm": (lambda a, w: a @ w, (64, 96), (96, 128)),
    "row": (F.linear, (1, 1024), (128, 1024)),
    "conv2d": (F.conv2d, (2, 8, 16, 16), (128, 8, 3, 3)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("product", NARROW_PRODUCTS)
def test_narrow_types_are_as_accurate_as_eager(product, chain, dtype):
    """Eager rounds after each op; ours, once at the end, is no further from what is right."""
    multiply, *shapes = NARROW_PRODUCTS[product]
    torch.manual_seed(0)
    a, w = (normal(*shape, device="cpu", dtype=dtype) for shape in shapes)
    w /= 16
    y = multiply(a, w)
    bias = normal(128, *[1] * (y.dim() - 2), device="cpu", dtype=dtype)
    operands = a, w, bias, normal(*y.shape, device="cpu", dtype=dtype)

    def compute(convert):
        a, w, bias, other = map(convert, operands)
        return CHAINS[chain](multiply(a, w), bias, other).cpu().double()

    right = compute(torch.Tensor.double)
    error = {d: (compute(lambda t, d=d: t.to(d)) - right).norm() for d in ("cpu", "lazuli")}
    assert error["lazuli"] <= error["cpu"] * 1.01


ACTIVATIONS = {
    "silu": nn.SiLU,
    "relu6": nn.ReLU6,
    "leaky relu": lambda: nn.LeakyReLU(0.1),
    "hardtanh": lambda: nn.Hardtanh(-0.2, 0.3),
    "gelu tanh": lambda: nn.GELU(approximate="tanh"),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "hardswish": nn.Hardswish,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_convolutions_in_inference(activation):
    """Weights stay the same: later steps have them packed, and small kernels are Winograd's."""

    def compute(device):
        torch.manual_seed(0)
        layers = []
        for before, after, taps in [(3, 64, 3), (64, 64, 3), (64, 96, 1), (96, 32, 3)]:
            layers += [nn.Conv2d(before, after, taps, padding=taps // 2, bias=False)]
            layers += [nn.BatchNorm2d(after), ACTIVATIONS[activation]()]
        net = nn.Sequential(*layers).eval().to(device)
        with torch.no_grad():
            return [net(normal(1, 3, 31, 29, device=device)).clone() for _ in range(7)]

    assert_same(compute, rtol=1e-4, atol=1e-5)


def test_another_number_is_another_activation():
    def compute(device):
        x, w = normal(2, 8, 12, 12, device=device), normal(16, 8, 3, 3, device=device)
        results = []
        with torch.no_grad():
            for step in range(12):
                y = F.conv2d(x, w)
                results.append(F.leaky_relu(y, (0.1, 0.3)[step % 2]).cpu())
                results.append(F.hardtanh(y, -1, 1 + step % 3).cpu())
        return results

    assert_same(compute, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_numbers_are_not_rounded_to_a_narrow_type(dtype):
    """In first runs, and in those of a plan."""

    def compute(device):
        x = normal(64, device=device, dtype=dtype, grad=True)
        results = []
        for _ in range(7):
            y = F.leaky_relu(x, 0.01) + F.hardtanh(x, -0.6, 0.7)
            results += [y.detach().clone(), torch.autograd.grad(y.sum(), x)[0]]
        return results

    assert_same(compute, rtol=0, atol=0)


def test_bounds_in_any_order_and_of_any_size():
    def compute(device):
        x, w = normal(2, 3, 9, 9, device=device), normal(8, 3, 3, 3, device=device)
        large = torch.tensor([-5, 2**53, 2**60]).to(device)
        with torch.no_grad():
            turned = torch.ops.aten.hardtanh(F.conv2d(x, w), 0.3, -0.3)
            return turned, torch.ops.aten.hardtanh(large, 0, 2**53 + 1)

    assert_same(compute)
