"""What fails on the way takes nothing with it that does not depend on it."""

import pytest
import torch

DEVICE = "lazuli"


def numbers(*values):
    return torch.tensor(values).to(DEVICE)


def test_values_beside_a_zero_divisor():
    x = numbers(1, 2, 3)
    before, after = x * 2, x + 5
    broken = torch.floor_divide(x, numbers(1, 0, 2))
    depends = broken + 1
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.lazuli.synchronize()
    assert before.tolist() == [2, 4, 6]
    assert after.tolist() == [6, 7, 8]
    assert (x - 1).tolist() == [0, 1, 2]
    for value in (broken, depends):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            value.tolist()


def test_two_failures_in_one_run():
    x, table = numbers(1, 2, 3), torch.arange(4.0).to(DEVICE)
    quotient = torch.floor_divide(x, x - 2)
    chosen = table.index_select(0, x + 2)
    fine = x * x
    with pytest.raises((RuntimeError, IndexError)):
        torch.lazuli.synchronize()
    assert fine.tolist() == [1, 4, 9]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        quotient.tolist()
    with pytest.raises(IndexError, match="out of range"):
        chosen.tolist()


def test_a_failing_external_call():
    """A matrix without an inverse, which only numbers show, before and after other work."""
    x = torch.eye(3).to(DEVICE)
    other = x + 1
    singular = x * torch.tensor([1.0, 0.0, 1.0]).to(DEVICE)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(singular).cpu()
    assert other.sum().item() == 12
    assert singular.sum().item() == 2


def test_a_known_end_after_a_failure(planned):
    """The end of a trace that is known runs on what the new beginning could compute."""

    def step(divisor, n):
        x = torch.arange(12.0).to(DEVICE)
        for _ in range(n):
            x = torch.sin(x) + 1
        quotient = torch.floor_divide(numbers(1, 2, 3), divisor)
        y = x
        for _ in range(12):
            y = torch.cos(y) * 2
        return quotient, y, quotient + y.sum().long()

    expected = step(numbers(1, 1, 1), 2)[1].tolist()
    for n in (3, 4):
        step(numbers(1, 1, 1), n)[2].tolist()
    quotient, y, both = step(numbers(1, 0, 1), 2)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.lazuli.synchronize()
    assert y.tolist() == expected
    for value in (quotient, both):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            value.tolist()
