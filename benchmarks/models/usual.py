"""Models of usual sizes for a CPU, from transformers, timm and torchvision, with random weights.

Vision models have the classes of ImageNet, and their libraries' defaults.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from benchmarks.models import batches
from benchmarks.models.batches import CLASSES, Batch
from benchmarks.models.heads import Labelled

Built = tuple[nn.Module, Callable[[], Batch]]


def bert_base_2x128() -> Built:
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(num_labels=CLASSES))
    return model, lambda: batches.tokens(2, 128)


def gpt2_small_1x128() -> Built:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config()
    config.use_cache = False
    return GPT2LMHeadModel(config), lambda: batches.language(1, 128)


def _classifying(model: nn.Module, batch: int) -> Built:
    return Labelled(model), lambda: batches.images(batch, 224, name="x")


def of_timm(name: str, batch: int) -> Built:
    import timm

    return _classifying(timm.create_model(name, pretrained=False), batch)


def of_torchvision(name: str, batch: int) -> Built:
    from torchvision.models import get_model

    return _classifying(get_model(name, weights=None), batch)


class Encoder(nn.Module):
    """torch's own transformer, six layers of 128, for texts of tokens."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        self.tokens = nn.Embedding(batches.VOCABULARY, 128)
        self.layers = nn.TransformerEncoder(layer, 6)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.tokens(x)).mean(1))


def torch_encoder_2x32() -> Built:
    def make_batch() -> Batch:
        batch = batches.tokens(2, 32)
        return {"x": batch["input_ids"], "labels": batch["labels"]}

    return Labelled(Encoder()), make_batch


MODELS = {
    "bert-base-2x128": bert_base_2x128,
    "gpt2-small-1x128": gpt2_small_1x128,
    "vit-small-x4": partial(of_timm, "vit_small_patch16_224", 4),
    "swin-tiny-x2": partial(of_timm, "swin_tiny_patch4_window7_224", 2),
    "resnet18-x1": partial(of_torchvision, "resnet18", 1),
    "resnet50-x4": partial(of_torchvision, "resnet50", 4),
    "mobilenetv3-large-x8": partial(of_torchvision, "mobilenet_v3_large", 8),
    "convnext-atto-x4": partial(of_timm, "convnext_atto", 4),
    "torch-encoder-2x32": torch_encoder_2x32,
}
