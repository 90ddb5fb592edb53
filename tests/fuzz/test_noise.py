"""What the noise says of conversions that C++ leaves open, and that it disturbs no program."""

import pytest
import torch
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


def test_a_zero_without_memory():
    with Noise(0):
        zero = torch._efficientzerotensor(3)
        total = torch.ones(3) + zero
    torch.testing.assert_close(total, torch.ones(3))
