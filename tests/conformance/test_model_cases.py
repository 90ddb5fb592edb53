"""What excuses a difference between two steps of a model, and what does not."""

import pytest
import torch
from model_cases import TOLERANCE, differences, explained, moved, take_step


class Steep(torch.nn.Module):
    """Its loss is the rest that two large numbers leave, or a number as it is."""

    def __init__(self, size: float):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
        self.size = size

    def forward(self, x):
        a, b = self.weight
        return (a * x + self.size * a - self.size * b).square().sum()


BATCH = {"x": torch.ones(1)}


def test_each_number_moves_by_a_unit():
    x = torch.tensor([1.0, -3.0, 0.0, 1e-3])
    y = moved(x, torch.Generator().manual_seed(0))
    assert ((y != x) == (x != 0)).all()
    assert torch.equal(torch.nextafter(y, x), x)


def test_what_eager_is_as_sensitive_to_is_excused(device):
    model = Steep(1e4)
    facts = explained(model, BATCH, take_step(model, BATCH, "cpu"), {"loss": 1e-3})
    assert facts["difference"] <= 3 * facts["eager"]


def test_what_eager_does_not_move_is_not(device):
    model = Steep(1.0)
    eager = take_step(model, BATCH, "cpu")
    assert differences(take_step(model, BATCH, "lazuli"), eager)["loss"] <= TOLERANCE
    with pytest.raises(AssertionError, match="eager's own moves by"):
        explained(model, BATCH, eager, {"loss": 1e-3})


def test_a_difference_of_the_first_step_only_is_not(device):
    model = Steep(1e5)
    with pytest.raises(AssertionError, match="then by"):
        explained(model, BATCH, take_step(model, BATCH, "cpu"), {"loss": 0.9})
