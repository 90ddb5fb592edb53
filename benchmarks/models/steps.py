"""One step of a model on one arm."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks import harness
from benchmarks.models import dropout, heads, zoo

MODES = ("infer", "train")
Step = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Conditions:
    """What is the same for all arms."""

    float32: bool = False  # else bfloat16 autocast on a GPU
    without_dropout: bool = False  # else as the model's configuration has it

    @staticmethod
    def add_options(parser: ArgumentParser) -> None:
        parser.add_argument("--float32", action="store_true", help="no autocast on a GPU")
        parser.add_argument("--without-dropout", action="store_true", help="so that losses agree")

    @staticmethod
    def of(arguments: Namespace) -> "Conditions":
        return Conditions(arguments.float32, arguments.without_dropout)

    def options(self) -> list[str]:
        """The command line's options that give the same."""
        given = {"--float32": self.float32, "--without-dropout": self.without_dropout}
        return [option for option, is_set in given.items() if is_set]

    def dropout_of(self, name: str) -> str:
        """The probabilities with which the model drops something in training."""
        rates = dropout.describe(zoo.MODELS[name]()[0])
        return f"left out ({rates})" if self.without_dropout and rates != "none" else rates


def _make_forward(
    name: str, mode: str, arm: str, conditions: Conditions
) -> tuple[torch.nn.Module, Step]:
    """The model, and a function that computes what it gives; the same numbers on every arm."""
    torch.manual_seed(0)
    model, make_batch = zoo.MODELS[name]()
    batch = make_batch()
    if mode == "infer":
        model, batch = heads.Inference(model), heads.without_labels(batch)
    device = harness.device_of(arm)
    batch = {key: value.to(device) for key, value in batch.items()}
    model = model.to(device).train(mode == "train")
    if conditions.without_dropout:
        dropout.remove(model)
    run = harness.compiled(arm, model)
    narrow = harness.on_gpu() and not conditions.float32

    def forward() -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=narrow):
            return heads.result_of(run(**batch))

    return model, forward


def make_step(name: str, mode: str, arm: str, conditions: Conditions) -> Step:
    """A function that does one step and returns scores or, in training, the loss."""
    if mode == "infer":
        _, forward = _make_forward(name, mode, arm, conditions)
        return torch.no_grad()(lambda: harness.to_keep(arm, forward()))

    forward, optimizer = make_training(name, arm, conditions)

    def train() -> torch.Tensor:
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
        return harness.to_keep(arm, loss)

    return train


def make_training(
    name: str, arm: str, conditions: Conditions
) -> tuple[Step, torch.optim.Optimizer]:
    """A function that computes the loss, and AdamW for the model's parameters."""
    model, forward = _make_forward(name, "train", arm, conditions)
    return forward, torch.optim.AdamW(model.parameters(), lr=1e-4)
