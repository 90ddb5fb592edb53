"""What a model gives when it trains, a loss, and when it infers, scores."""

import torch
from torch import nn
from torch.nn import functional

from benchmarks.models.batches import Batch


class Labelled(nn.Module):
    """A plain module that gives a loss where it is given labels, as transformers' models do."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        scores = self.module(x)
        if labels is None:
            return scores
        return functional.cross_entropy(scores, labels.flatten())


class Inference(nn.Module):
    """A model as it is used: the scores of the classes, or how probable each token of a text was.

    The latter depends on all of a language model's output, and is small enough to be kept.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        output = self.model(**batch)
        scores = output if isinstance(output, torch.Tensor) else output.logits
        if scores.dim() == 2:
            return scores
        following = batch["input_ids"][:, 1:, None]
        return functional.log_softmax(scores[:, :-1].float(), -1).gather(-1, following)[..., 0]


def without_labels(batch: Batch) -> Batch:
    return {name: value for name, value in batch.items() if name != "labels"}


def result_of(output: object) -> torch.Tensor:
    """A model's loss, or the scores that `Inference` gives."""
    return output if isinstance(output, torch.Tensor) else output.loss
