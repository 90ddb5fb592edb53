"""The comparison itself: what it must tell apart, and what it must not."""

import pytest
import torch
from agreement import Arbiter, Raised, attempt, same


def tolerance_of(dtype):
    return {}


def agrees(actual, expected, arbiter=None, **options):
    try:
        same(actual, expected, arbiter, tolerance_of, device="cpu", **options)
    except AssertionError:
        return False
    return True


ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    "other",
    [
        ONES + 1e-3,
        ONES.double(),
        ONES[:1],
        torch.ones(3, 2).t(),
        ONES.clone().requires_grad_(),
        torch.full((2, 3), torch.nan),
        [ONES],
        None,
        Raised(RuntimeError("no")),
    ],
    ids=["number", "type", "shape", "strides", "grad", "nan", "nesting", "nothing", "error"],
)
def test_differences_are_seen(other):
    assert agrees(ONES, ONES.clone())
    assert not agrees(other, ONES)
    assert not agrees(ONES, other)


def test_errors_agree_by_class_and_message():
    def failing(error):
        def function():
            raise error

        return attempt(function)

    assert agrees(failing(ValueError("on lazuli:0")), failing(ValueError("on cpu")))
    assert not agrees(failing(ValueError("on cpu")), failing(TypeError("on cpu")))
    assert not agrees(failing(ValueError("one")), failing(ValueError("two")))


def arbiter_of(exact, again=lambda: None):
    return Arbiter(lambda: exact, again)


def test_the_exact_result_excuses_what_is_as_near_as_eagers():
    arbiter = arbiter_of(torch.tensor([1000.0, 1e-4], dtype=torch.float64))
    eager = torch.tensor([1000.0, 1.5e-4])
    assert agrees(torch.tensor([1000.0, 0.5e-4]), eager, arbiter)
    assert not agrees(torch.tensor([1000.0, 3e-4]), eager, arbiter)
    assert not agrees(torch.tensor([torch.nan, 1e-4]), eager, arbiter)


def test_an_error_of_eagers_excuses_its_own_element_only():
    arbiter = arbiter_of(torch.ones(2, dtype=torch.float64))
    eager = torch.tensor([1.001, 1.0])
    assert agrees(torch.tensor([0.9991, 1.0]), eager, arbiter)
    assert not agrees(torch.tensor([1.0, 1.001]), eager, arbiter)
    assert not agrees(torch.tensor([0.998, 1.0]), eager, arbiter)


def cancels():
    """A sum whose terms leave next to nothing, and one of them alone."""
    terms = torch.tensor([1e4, 1.0 / 3, -1e4])
    return torch.stack([terms.sum(), terms[1] * 3])


def test_an_operators_own_rounding_excuses_an_element():
    eager = cancels()
    exact = torch.tensor([1.0 / 3, 1.0], dtype=torch.float64)
    off = torch.tensor([-2e-4, 0.0])  # eager is off by 3e-4
    assert agrees(eager + off, eager, arbiter_of(exact, cancels))
    assert not agrees(eager + off.flip(0), eager, arbiter_of(exact, cancels))
    assert not agrees(eager + 2 * off, eager, arbiter_of(exact, cancels))


def test_lazy_conjugation_is_compared():
    z = torch.tensor([1 + 2j])
    assert agrees(z.conj(), torch.tensor([1 + 2j]).conj())
    assert not agrees(z.conj(), torch.tensor([1 - 2j]))
