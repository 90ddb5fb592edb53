"""What the noise says of conversions that C++ leaves open, and that it disturbs no program."""

import contextlib

import pytest
import torch
from careful import Careful
from noise import Noise

from fuzz.execute import execute
from fuzz.generate import generate
from fuzz.scope import EAGER


@pytest.mark.parametrize(
    ("value", "kind", "undefined"),
    [
        (3.7, torch.int64, False),
        (-3.7, torch.int8, False),
        (-1.5, torch.uint8, True),
        (1e30, torch.int64, True),
        (float("nan"), torch.int32, True),
        (float("nan"), torch.bool, False),
        (1e30, torch.float16, False),
    ],
)
def test_conversions(value, kind, undefined):
    x = torch.tensor([value])
    with Noise(0) as noise:
        x.to(kind)
    assert noise.is_undefined == undefined
    with Noise(0) as noise:
        torch.zeros(1, dtype=kind).copy_(x)
    assert noise.is_undefined == undefined


def written_twice():
    torch.arange(4.0).as_strided((3, 2), (1, 1)).mul_(2)


def scattered_twice():
    torch.select_scatter(torch.arange(4.0).as_strided((3, 2), (1, 1)), torch.ones(3), 1, 0)


def written_where_it_is_read():
    """Eager refuses operands that overlap in part where both are dense, and sees no others."""
    x = torch.arange(24.0)
    x.view(4, 6)[:, :3].add_(x[3:15].view(4, 3))


UNDEFINED = {
    "read while it is written": written_where_it_is_read,
    "rows of a singular matrix": lambda: torch.linalg.lu_factor_ex(torch.ones(3, 3)),
    "bits of a nan": lambda: torch.tensor([float("nan")]).view(torch.int32),
    "elements that share memory": written_twice,
    "scattered over such": scattered_twice,
    "median of one repeated": lambda: torch.ones(1).expand(3).median(0),
    "deviation of equal numbers": lambda: torch.full((3,), 1.7).std(),
    "of some of the rows": lambda: torch.tensor([[1.0, 2], [3, 3]]).var(1),
    "normalized": lambda: torch.nn.functional.layer_norm(torch.full((2, 3), 1.7), (3,)),
    "in groups": lambda: torch.nn.functional.group_norm(torch.full((2, 4, 3), 1.7), 2),
    "in a batch": lambda: torch.nn.functional.batch_norm(
        torch.full((3, 2), 1.7), None, None, training=True
    ),
}
DEFINED = {
    "written over itself": lambda: torch.ones(3).mul_(torch.ones(3)),
    "rows of a matrix": lambda: torch.linalg.lu_factor_ex(torch.eye(3) + 0.1),
    "bits": lambda: torch.ones(1).view(torch.int32),
    "elements apart": lambda: torch.arange(4.0).as_strided((2, 2), (1, 2)).mul_(2),
    "median": lambda: torch.ones(3).median(0),
    "deviation": lambda: torch.randn(3, 4).std(1),
    "deviation of zeros": lambda: torch.zeros(3).std(),
    "normalized": lambda: torch.nn.functional.layer_norm(torch.randn(3), (3,)),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_nobody_promises(name):
    with Noise(0) as noise:
        UNDEFINED[name]()
    assert noise.is_undefined


@pytest.mark.parametrize("name", DEFINED)
def test_what_is_promised(name):
    with Noise(0) as noise:
        DEFINED[name]()
    assert not noise.is_undefined


def test_settings_are_as_before():
    def settings():
        return torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()

    before = settings()
    with Noise(0):
        torch.nn.functional.layer_norm(torch.randn(2, 3), (3,)).log_softmax(0)
    assert settings() == before == (True, True)


def test_programs_run_as_far_under_noise():
    """With the same errors: noise raises none of its own."""
    same = 0
    for k in range(40):
        program, _ = generate(17, k)
        eager = execute(program, EAGER)
        with Noise(0):
            noisy = execute(program, EAGER)
        same += eager.errors == noisy.errors
    assert same >= 38  # a singular matrix may become a regular one


def test_forward_mode_in_place():
    x = torch.ones(3)
    with Noise(0), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x.cos())
        tangent = torch.autograd.forward_ad.unpack_dual(dual.clone().mul_(2)).tangent
    torch.testing.assert_close(tangent, 2 * x.cos())


def test_forward_mode_is_moved_too():
    x = torch.randn(5, 5)[:, 1:]
    with Noise(0), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x.cos()).reshape(-1)
        primal, tangent = torch.autograd.forward_ad.unpack_dual(dual)
    assert torch.equal(primal, x.reshape(-1))
    assert not torch.equal(tangent, x.reshape(-1).cos())
    torch.testing.assert_close(tangent, x.reshape(-1).cos())


def test_a_zero_without_memory():
    with Noise(0):
        zero = torch._efficientzerotensor(3)
        total = torch.ones(3) + zero
    torch.testing.assert_close(total, torch.ones(3))


def test_products_overflow_or_vanish_as_chance_has_it():
    """In order they are zero; but eager may take them in any."""
    x = torch.tensor([0.0, 1e30, 1e30])
    seen = []
    for seed in range(20):
        with Noise(seed, units=0):
            seen.append(x.prod().item())
    assert 0.0 in seen
    assert any(product != product for product in seen)


def test_what_is_nearly_equal_may_be_equal():
    x = torch.full((100,), 1.0)
    with Noise(0):
        apart = (x * 3) != (x * 3)
        less = x < 1
        written = torch.linspace(0.5, 1.5, 100)
        written[50] = 1
        written.lt_(1)
    assert apart.any()
    assert not apart.all()
    assert not less.all()
    assert set(written.tolist()) == {0.0, 1.0}


def test_what_cancels_in_a_fused_sum_may_be_nothing():
    x = torch.full((100,), 0.1)
    with Noise(0):
        left = torch.addcmul(x * 3, x, x * 30, value=-1)
        along = torch.randn(3, 4, 5).var(-3)
    assert (left == 0).any()
    assert (left != 0).any()
    assert along.shape == (4, 5)


def test_a_sum_that_is_given_its_tensor_stays_one():
    a, b, out = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0], [5.0]]), torch.empty(1, 1)
    with Noise(0):
        torch.mm(a, b, out=out)
    torch.testing.assert_close(out, torch.tensor([[-7.0]]))


def test_a_probability_stays_one():
    with Noise(0):
        assert torch.bernoulli(torch.ones(100)).sum() == 100
        with pytest.raises(RuntimeError):
            torch.bernoulli(torch.full((3,), 1.5))


def test_a_negative_number_has_a_power_next_to_an_integer():
    one = torch.nn.functional.cosine_similarity(torch.ones(1, 3), torch.ones(1, 3))
    with Noise(0):
        assert (torch.full((1,), -2.0) ** one).isfinite().all()


def test_a_largest_element_stays_one():
    """Its derivative divides by how many there are."""
    x = torch.randn(6, requires_grad=True)
    index = torch.tensor([0, 0, 1, 1, 2, 2])
    with Noise(0):
        torch.zeros(3).scatter_reduce(0, index, x, "amax", include_self=False).sum().backward()
    assert x.grad.isfinite().all()


def test_an_interpolation_meets_nothing():
    """As it does where the product is rounded before it is added, or after."""
    start, end = torch.full((100,), -2.0), torch.full((100,), 3.0)
    with Noise(0):
        met = torch.lerp(start, end, 0.4) == 0
        complex_weight = torch.lerp(start.to(torch.complex64), end.to(torch.complex64), 2j)
    assert met.any()
    assert not met.all()
    assert complex_weight.isfinite().all()


def test_the_logarithm_of_a_sum_next_to_one():
    x = torch.tensor([0.031, -7.2, -7.2, -7.2]).expand(100, -1).contiguous()
    with Noise(0):
        moved = x.logsumexp(1)
        empty = x[:, :0].logsumexp(1)
        integers = x.int().logsumexp((0, 1), keepdim=True)
    assert (moved - x.logsumexp(1)).abs().max() > 5e-8
    assert torch.equal(empty, x[:, :0].logsumexp(1))
    assert integers.shape == (1, 1)


def test_complex_numbers_with_a_large_or_infinite_part():
    large = torch.tensor([1e6 + 2e6j, 1e6 - 1e6j], dtype=torch.complex128)
    infinite = torch.complex(torch.tensor([float("inf")]), torch.ones(1))
    with Noise(0):
        total = large.logsumexp(0)
        real = (infinite + infinite).real
        imag = (infinite + infinite).imag
    torch.testing.assert_close(total, large.logsumexp(0), atol=1e-6, rtol=1e-12)
    assert real.isinf().all()
    assert imag.isfinite().all()


def test_careful_rounds_once():
    x = torch.tensor([0.1, 0.2, 0.3], dtype=torch.bfloat16)
    with Careful():
        total = x.logsumexp(0)
        y = x.clone().add_(x, alpha=0.3)
        drawn = torch.manual_seed(0) and torch.rand(3)
    assert total == x.double().logsumexp(0).bfloat16()
    assert torch.equal(y, (x.double() + 0.3 * x.double()).bfloat16())
    assert torch.equal(drawn, torch.manual_seed(0) and torch.rand(3))


def test_a_sixth_is_exact_where_torch_has_rounded_it():
    x = torch.tensor([-4.0, 1.0], dtype=torch.float64, requires_grad=True)
    for scope, sixth in (
        (contextlib.nullcontext(), float(torch.tensor(1 / 6))),
        (Careful(), 1 / 6),
    ):
        with scope:
            (g,) = torch.autograd.grad(torch.nn.functional.hardsigmoid(x).sum(), x)
        assert g.tolist() == [0, sixth]
