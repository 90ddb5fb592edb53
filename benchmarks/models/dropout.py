"""Dropout in a model: where it is, and how to take it out."""

from collections.abc import Iterator

from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torchvision.ops import StochasticDepth

# Attributes of layers that drop values themselves: attention, recurrent units, whole branches.
NAMES = ("dropout", "dropout_prob", "attention_dropout", "drop_prob")


def _places(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for module in model.modules():
        names = ("p",) if isinstance(module, _DropoutNd | StochasticDepth) else NAMES
        for name in names:
            if isinstance(getattr(module, name, None), int | float):
                yield module, name


def rates(model: nn.Module) -> list[float]:
    """The probabilities with which the model drops something, each once."""
    found = {getattr(module, name) for module, name in _places(model)}
    return sorted(rate for rate in found if rate)


def remove(model: nn.Module) -> None:
    for module, name in _places(model):
        setattr(module, name, 0.0)


def describe(model: nn.Module) -> str:
    """The rates in a word or two."""
    found = rates(model)
    if len(found) > 2:
        return f"{found[0]:.3g} to {found[-1]:.3g}"
    return " and ".join(f"{rate:.3g}" for rate in found) or "none"
