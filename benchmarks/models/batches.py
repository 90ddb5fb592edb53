"""Batches of random numbers, as keyword arguments of a model."""

import torch

Batch = dict[str, torch.Tensor]
VOCABULARY, CLASSES = 2000, 10


def tokens(batch: int, length: int) -> Batch:
    """Texts to classify."""
    ids = torch.randint(VOCABULARY, (batch, length))
    labels = torch.randint(CLASSES, (batch,))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def language(batch: int, length: int) -> Batch:
    """Texts whose tokens are to be predicted."""
    ids = torch.randint(VOCABULARY, (batch, length))
    return {"input_ids": ids, "labels": ids.clone()}


def images(batch: int, size: int, name: str = "pixel_values") -> Batch:
    """Images to classify."""
    pixels = torch.randn(batch, 3, size, size)
    return {name: pixels, "labels": torch.randint(CLASSES, (batch,))}
