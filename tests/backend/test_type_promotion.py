"""Type promotion: every pair of dtypes, as tensors, 0-dim tensors and Python numbers."""

import itertools

import pytest
import torch
from differential import (
    DEVICES,
    NATIVE_TYPES,
    assert_same,
    assert_same_error,
    compare,
    normal,
    run,
    without_device,
)

OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "bitwise_and": lambda a, b: a & b,
    "maximum": lambda a, b: torch.maximum(torch.as_tensor(a), torch.as_tensor(b)),
    "where": lambda a, b: torch.where(torch.as_tensor(a) != 0, a, b),
    "atan2": lambda a, b: torch.atan2(torch.as_tensor(a), torch.as_tensor(b)),
    "logical_xor": lambda a, b: torch.logical_xor(torch.as_tensor(a), torch.as_tensor(b)),
}


def outcome(function, device):
    """What the function gives, or the class and message of its error and where it came."""
    try:
        result = run(function, device)
    except (RuntimeError, TypeError, ValueError, ZeroDivisionError) as error:
        return type(error).__name__, without_device(error)
    try:
        for t in result if isinstance(result, tuple) else (result,):
            t.cpu()
    except RuntimeError as error:
        return "late", str(error)
    return result


class Outcomes:
    """Compares many small cases and reports all that differ at once."""

    def __init__(self):
        self.wrong = []

    def same(self, function, case):
        expected, actual = (outcome(function, device) for device in DEVICES)
        try:
            compare(actual, expected, where=str(case), rtol=2e-2, atol=2e-2)
        except AssertionError as error:
            self.wrong.append(
                f"{error}".replace("\n", " ")[:200] + f": {actual} / {expected}"[:200]
            )

    def check(self):
        assert not self.wrong, f"{len(self.wrong)} cases differ:\n" + "\n".join(self.wrong)


@pytest.fixture
def outcomes():
    collected = Outcomes()
    yield collected
    collected.check()


def values(dtype, device, dims):
    full = torch.tensor([1, 2, 3, 2]).to(dtype).to(device)
    return full if dims else full[2]


@pytest.mark.parametrize("op", OPS)
def test_tensor_with_tensor(op, outcomes):
    for a, b in itertools.product(NATIVE_TYPES, NATIVE_TYPES):
        for dims_a, dims_b in ((1, 1), (1, 0), (0, 1), (0, 0)):
            outcomes.same(
                lambda d, a=a, b=b, x=dims_a, y=dims_b: OPS[op](values(a, d, x), values(b, d, y)),
                (op, a, dims_a, b, dims_b),
            )


NUMBERS = [True, 2, 2.5, -1, 3]


@pytest.mark.parametrize(
    "op", [n for n in OPS if n not in ("maximum", "atan2", "logical_xor", "where")]
)
def test_tensor_with_number(op, outcomes):
    for dtype, number, dims in itertools.product(NATIVE_TYPES, NUMBERS, (1, 0)):
        if number == -1 and dtype is torch.uint8:
            continue  # what a number out of range means is undefined
        outcomes.same(
            lambda d, t=dtype, n=number, x=dims: OPS[op](values(t, d, x), n), (op, dtype, number)
        )
        outcomes.same(
            lambda d, t=dtype, n=number, x=dims: OPS[op](n, values(t, d, x)), (op, number, dtype)
        )


@pytest.mark.parametrize("op", ["add", "mul", "div", "maximum", "lt", "where"])
def test_with_a_host_scalar_tensor(op, outcomes):
    """A 0-dim tensor of the host may stand beside tensors of the device."""
    for a, b in itertools.product(NATIVE_TYPES, NATIVE_TYPES):
        outcomes.same(lambda d, a=a, b=b: OPS[op](values(a, d, 1), values(b, "cpu", 0)), (op, a, b))


IN_PLACE = {
    "add_": lambda a, b: a.add_(b),
    "mul_": lambda a, b: a.mul_(b),
    "div_": lambda a, b: a.div_(b),
    "sub_": lambda a, b: a.sub_(b),
    "pow_": lambda a, b: a.pow_(b),
    "copy_": lambda a, b: a.copy_(b),
    "clamp_min_": lambda a, b: a.clamp_min_(b),
    "lt_": lambda a, b: a.lt_(b),
}


@pytest.mark.parametrize("op", IN_PLACE)
def test_in_place(op, outcomes):
    for a, b in itertools.product(NATIVE_TYPES, NATIVE_TYPES):
        outcomes.same(
            lambda d, a=a, b=b: IN_PLACE[op](values(a, d, 1), values(b, d, 1)), (op, a, b)
        )


UNARY = ["exp", "sqrt", "sigmoid", "neg", "abs", "relu", "floor", "sin", "reciprocal", "sign"]
REDUCTIONS = ["sum", "prod", "mean", "amax", "any", "all", "argmax", "cumsum", "std", "max"]


@pytest.mark.parametrize("name", UNARY + REDUCTIONS)
def test_one_tensor(name, outcomes):
    arguments = (0,) if name == "cumsum" else ()
    for dtype in NATIVE_TYPES:
        outcomes.same(
            lambda d, t=dtype: getattr(torch, name)(values(t, d, 1), *arguments), (name, dtype)
        )


def test_result_type_and_can_cast(device):
    for a, b in itertools.product(NATIVE_TYPES, NATIVE_TYPES):
        x, y = values(a, device, 1), values(b, device, 0)
        expected = torch.result_type(values(a, "cpu", 1), values(b, "cpu", 0))
        assert torch.result_type(x, y) == expected


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16])
def test_default_dtype(default, outcomes):
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        for dtype in (torch.int64, torch.bool):
            outcomes.same(lambda d, t=dtype: values(t, d, 1) / 2, dtype)
            outcomes.same(lambda d, t=dtype: values(t, d, 1) * 2.5, dtype)
            outcomes.same(lambda d, t=dtype: torch.ones(2, device=d), dtype)
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("target", NATIVE_TYPES)
def test_conversions(target, outcomes):
    numbers = torch.tensor([0.0, 1.0, -1.0, 2.5, 3.5, 100.4, 0.3, -0.7])
    for source in NATIVE_TYPES:
        if not source.is_floating_point or source is torch.bool:
            numbers_of = numbers.abs()
        else:
            numbers_of = numbers if target.is_floating_point or target.is_signed else numbers.abs()
        outcomes.same(lambda d, x=numbers_of, s=source: x.to(s).to(d).to(target), (source, target))


def test_int64_is_exact_beyond_doubles(outcomes):
    def compute(device):
        x = torch.tensor([2**62, 2**53 + 1, -(2**62) + 3]).to(device)
        return x + 1, x * 1, x - 2, x // 3, x % 7, x.sum(), x.max(), x == 2**53 + 1, x.clone()

    outcomes.same(compute, "int64")


def test_integers_wrap(outcomes):
    def compute(device):
        x = torch.tensor([127, -128, 1], dtype=torch.int8).to(device)
        y = torch.tensor([255, 200], dtype=torch.uint8).to(device)
        return x + x, x * 2, -x, y + y, x.sum(), y * y

    outcomes.same(compute, "wrapping")


def test_complex_runs_too(outcomes):
    def compute(device):
        x = torch.tensor([1 + 2j, -3j, 0.5]).to(device)
        return (
            x.sin(),
            x * 2,
            x + x.conj(),
            x.abs(),
            x.real,
            x @ x,
            x * torch.ones(3, device=device),
        )

    outcomes.same(compute, "complex")


INTEGERS = [torch.bool, torch.uint8, torch.int32, torch.int64]
OF_FLOATS = {
    "silu": torch.nn.functional.silu,
    "mish": torch.nn.functional.mish,
    "hardswish": torch.nn.functional.hardswish,
    "hardsigmoid": torch.nn.functional.hardsigmoid,
    "softplus": torch.nn.functional.softplus,
    "elu": torch.nn.functional.elu,
    "selu": torch.nn.functional.selu,
    "leaky_relu": torch.nn.functional.leaky_relu,
    "frac": torch.frac,
    "hypot": lambda x: torch.hypot(x, x),
    "addcdiv": lambda x: torch.addcdiv(x, x, x, value=2),
    "foreach_addcdiv": lambda x: torch._foreach_addcdiv([x], [x], [x]),
    "addcdiv_of_floats": lambda x: torch.addcdiv(x.float(), x, x),
    "addr": lambda x: torch.addr(x.view(2, 2), x[:2], x[2:], beta=0.5),
}


OF_ONE_AS_A_FLOAT = {
    "add": lambda x: x.add(x, alpha=1.0),
    "add_": lambda x: x.add_(x, alpha=1.0),
    "add of a number": lambda x: x.add(2, alpha=1.0),
    "sub": lambda x: x.sub(x, alpha=1.0),
    "sub_": lambda x: x.sub_(x, alpha=1.0),
    "sub into": lambda x: torch.sub(x, x, alpha=1.0, out=x.clone()),
    "rsub": lambda x: torch.rsub(x, x, alpha=1.0),
    "foreach": lambda x: torch._foreach_add([x], [x], alpha=1.0),
    "foreach_": lambda x: torch._foreach_sub_([x], [x], alpha=1.0),
}


@pytest.mark.parametrize("op", OF_ONE_AS_A_FLOAT.values(), ids=OF_ONE_AS_A_FLOAT.keys())
def test_one_as_a_factor_is_a_float(op):
    for dtype in [torch.int64, torch.uint8]:
        assert_same_error(
            lambda device, kind=dtype: op(torch.arange(4).to(device, kind)), RuntimeError
        )
    assert_same(lambda device: op(torch.arange(4).to(device, torch.float32)))
    assert_same(lambda device: torch.arange(4).to(device).add(normal(4, device=device), alpha=1.0))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", OF_FLOATS.values(), ids=OF_FLOATS.keys())
def test_what_is_not_for_integers(op, dtype):
    assert_same_error(lambda device: op(torch.arange(4).to(device, dtype)), RuntimeError)


@pytest.mark.parametrize("value", [1, 2, 0.5, -1.5, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.float16], ids=str)
def test_a_factor_does_not_promote(dtype, value):
    def multiply(device):
        x = torch.arange(3, 9).to(device, dtype)
        out = torch.addcmul(x, x, x, value=value, out=x.clone())
        listed = torch._foreach_addcmul([x], [x], [x], [value])
        mixed = torch.addcmul(x.float(), x, x, value=value)
        return (
            torch.addcmul(x, x, x, value=value),
            x.clone().addcmul_(x, x, value=value),
            out,
            listed,
            mixed,
        )

    assert_same(multiply)


def test_a_factor_that_the_type_does_not_hold():
    def multiply(device):
        x = torch.arange(3, device=device, dtype=torch.uint8)
        return torch.addcmul(x, x, x, value=-1.5)

    assert_same_error(multiply, RuntimeError)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bool], ids=str)
def test_factors_of_an_outer_product(dtype):
    def product(device):
        x = torch.arange(4).to(device, dtype)
        return torch.addr(x.view(2, 2), x[:2], x[2:], beta=2, alpha=3), torch.addr(
            x.float().view(2, 2), x[:2], x[2:], beta=0.5
        )

    assert_same(product)


def flags(device):
    return torch.tensor([True, False, True], device=device)


REFUSED = {
    "a flag less a complex number": lambda x, flags: flags - x.to(torch.complex64),
    "a complex number less a flag": lambda x, flags: x.to(torch.complex64) - flags,
    "a complex number less True": lambda x, flags: x.to(torch.complex64) - True,
    "a flag less a complex number, reversed": lambda x, f: torch.rsub(x.to(torch.complex64), f),
    "complex numbers less flags in place": lambda x, flags: x.to(torch.complex64).sub_(flags),
    "True as the factor of numbers": lambda x, flags: torch.add(x, x, alpha=True),
    "True as the factor of numbers in a list": lambda x, f: torch._foreach_add(
        [x], [x], alpha=True
    ),
    "a list less True": lambda x, flags: torch._foreach_sub([x], True),
    "a list less flags": lambda x, flags: torch._foreach_sub([x.to(torch.complex64)], [flags]),
    "a list less a list of True": lambda x, flags: torch._foreach_sub([x], [True]),
    "flags shifted left": lambda x, flags: flags << flags,
    "flags shifted right in place": lambda x, flags: flags.bitwise_right_shift_(flags),
}


@pytest.mark.parametrize("call", REFUSED)
def test_flags_that_eager_does_not_compute_with(call):
    """It neither subtracts nor shifts them, and multiplies nothing but flags by True."""
    x = torch.tensor([1.0, 2.0, 3.0])
    assert_same_error(lambda device: REFUSED[call](x.to(device), flags(device)))


def test_true_as_the_factor_of_flags():
    assert_same(lambda device: torch.add(flags(device), flags(device).flip(0), alpha=True))
