"""Operators over lists of tensors, in all their overloads."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

SHAPES = [(3, 4), (5,), (), (2, 1, 3)]
UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "zero",
]
BINARY = ["add", "sub", "mul", "div", "clamp_min", "clamp_max", "maximum", "minimum", "pow"]
TERNARY = ["addcmul", "addcdiv"]
LAYOUTS = {
    "row-major": lambda t: t,
    "transposed": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
    "windows": lambda t: torch.stack([t, t + 1])[1],
    "strided": lambda t: torch.stack([t, t + 1], -1)[..., 1],
}


def apply(name, device, *arguments, in_place):
    """What the operator makes of the lists, and what it leaves in the first of them."""
    if in_place:
        assert getattr(torch, f"_foreach_{name}_")(*arguments) in (None, arguments[0])
        return arguments[0], [t._version for t in arguments[0]]
    return list(getattr(torch, f"_foreach_{name}")(*arguments))


def lists(device, count, dtype=torch.float32, layout="row-major"):
    def make(shape):
        numbers = normal(*shape, device="cpu").abs() + 0.1
        return LAYOUTS[layout](
            (numbers * (4 if dtype.is_floating_point else 10)).to(dtype).to(device)
        )

    return [[make(s) for s in SHAPES] for _ in range(count)]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name, in_place):
    if name == "zero" and not in_place:
        return
    assert_same(
        lambda device: apply(name, device, *lists(device, 1), in_place=in_place),
        rtol=1e-5,
        atol=1e-6,
    )


def other(kind, device, dtype):
    if kind == "number":
        return 2.0
    if kind == "whole number":
        return 2
    if kind == "numbers":
        return [2.0, 0.5, 3, 1.5]
    if kind == "tensor":
        return torch.tensor(1.5).to(device)
    if kind == "tensor on the host":
        return torch.tensor(1.5)
    return lists(device, 1, dtype)[0]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
@pytest.mark.parametrize(
    "kind", ["number", "whole number", "numbers", "tensor", "tensor on the host", "list"]
)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name, kind, dtype, in_place):
    if kind.startswith("tensor") and name not in ("add", "mul", "div"):
        return

    def compute(device):
        arguments = lists(device, 1, dtype) + [other(kind, device, dtype)]
        try:
            return apply(name, device, *arguments, in_place=in_place)
        except RuntimeError as e:
            return str(e)

    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-5
    assert_same(compute, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["number", "numbers", "packed", "none"])
@pytest.mark.parametrize("name", TERNARY)
def test_three_operands(name, kind, layout, in_place):
    value = {
        "number": [0.3],
        "numbers": [[0.1, 0.2, 0.3, 0.4]],
        "packed": [torch.tensor([0.1, 0.2, 0.3, 0.4])],
        "none": [],
    }[kind]
    assert_same(
        lambda device: apply(
            name, device, *lists(device, 3, layout=layout), *value, in_place=in_place
        ),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["number", "numbers", "list"])
def test_lerp(kind, dtype, in_place):
    def compute(device):
        a, b, w = lists(device, 3, dtype)
        weight = {"number": 0.3, "numbers": [0.1, 0.4, 0.6, 0.9], "list": w}[kind]
        return apply("lerp", device, a, b, weight, in_place=in_place)

    assert_same(compute, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-6)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_scaled_operand(name, dtype, layout, in_place):
    def compute(device):
        a, b = lists(device, 2, dtype, layout)
        function = getattr(torch, f"_foreach_{name}" + ("_" if in_place else ""))
        result = function(a, b, alpha=3)
        return a if in_place else list(result)

    tolerance = 1e-2 if dtype == torch.float16 else 1e-5  # eager rounds twice
    assert_same(compute, rtol=tolerance, atol=tolerance)


def test_a_number_to_the_power_of_a_list():
    assert_same(lambda device: list(torch._foreach_pow(0.9, lists(device, 1)[0])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [1, 2, 3, float("inf")])
def test_norms(order, dtype):
    assert_same(
        lambda device: list(torch._foreach_norm(lists(device, 1, dtype)[0], order)),
        rtol=1e-2 if dtype == torch.bfloat16 else 1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copies(layout, dtype):
    def compute(device):
        to, source = lists(device, 1)[0], lists(device, 1, dtype, layout)[0]
        torch._foreach_copy_(to, source)
        for t in source:
            t.zero_()
        return to, [t._version for t in to]

    assert_same(compute)


def test_types_and_layouts_mixed():
    def compute(device):
        def mixed():
            a = normal(3, 4, device=device)
            return [
                a,
                a.to(torch.float64),
                a.mT,
                a[:, 1:3],
                a[1].to(torch.bfloat16),
                (a * 10).to(torch.int64),
                torch.complex(a, a),
                normal(3, 1, device=device),
            ]

        first, second = mixed(), mixed()
        second[0] = second[0].to(torch.float64)
        second[7] = normal(1, 4, device=device)
        result = list(torch._foreach_mul(first, second))
        torch._foreach_add_(first[:5], 1.5)
        return result, first

    assert_same(compute, rtol=1e-5, atol=1e-6)


def test_host_and_device_in_one_list():
    def compute(device):
        to = [normal(3, device=device), normal(3, device="cpu")]
        torch._foreach_add_(to, 2)
        return [t.cpu() for t in to], [t.cpu() for t in torch._foreach_exp(to)]

    assert_same(compute)


def test_one_tensor_twice():
    def compute(device):
        a = normal(3, device=device)
        torch._foreach_add_([a, a], [a, a])
        return a, a._version

    assert_same(compute)


def test_windows_of_one_storage():
    def compute(device):
        a = normal(3, 4, device=device)
        torch._foreach_mul_([a[0], a[1]], [a[1], a[2]])
        return a

    assert_same(compute)


def test_derivatives():
    def compute(device):
        xs = [normal(3, device=device, grad=True) for _ in range(3)]
        sum(t.sum() for t in torch._foreach_mul(torch._foreach_exp(xs), 2.0)).backward()
        return [x.grad for x in xs]

    assert_same(compute)


@pytest.mark.parametrize(
    "call",
    [
        lambda xs: torch._foreach_add_([], 1),
        lambda xs: torch._foreach_add_(xs, xs[:1]),
        lambda xs: torch._foreach_add_(xs, [1.0]),
        lambda xs: torch._foreach_mul_(xs, torch.ones(2, device=xs[0].device)),
        lambda xs: torch._foreach_add_([x.to(torch.int64) for x in xs], 1.5),
        lambda xs: torch._foreach_add_(xs, [torch.ones(2, 4, device=xs[0].device)] * 2),
        lambda xs: torch._foreach_sub_([x > 0 for x in xs], [x > 0 for x in xs]),
        lambda xs: torch._foreach_copy_(xs, xs[:1]),
        lambda xs: torch._foreach_addcmul_(xs, xs, xs, torch.ones(3)),
        lambda xs: torch._foreach_add_([xs[0].expand(2, 4)], 1.0),
    ],
)
def test_errors(call):
    assert_same_error(lambda device: call([normal(4, device=device), normal(4, device=device)]))


def test_a_list_is_recorded_at_once(counters):
    a, b = ([torch.ones(3, device="lazuli") for _ in range(50)] for _ in range(2))
    before = counters()["ops_recorded"]
    torch._foreach_addcdiv_(a, b, b, 0.5)
    assert counters()["ops_recorded"] == before + 1
    torch._foreach_sqrt(a)
    assert counters()["ops_recorded"] == before + 2


@pytest.mark.parametrize(
    ("tiers", "what"), [("plans", "traces_compiled"), ("parts", "parts_compiled")]
)
def test_numbers_compile_nothing(tiers, what, planned, counters):
    size = {"plans": 3, "parts": 37}[tiers]  # that no test before has left
    a = [torch.ones(size).to("lazuli") for _ in range(3)]
    for number in (0.5, 0.25, 0.125):
        torch._foreach_mul_(a, number)
        torch._foreach_add_(a, [number, 2 * number, 3 * number])
        torch._foreach_addcmul_(a, a, a, number)
        with torch.lazuli.config.patch(tiers=tiers):
            torch.lazuli.synchronize()
    assert counters()[what] == 1
