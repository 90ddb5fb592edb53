"""Models of usual sizes for a CPU, from transformers, timm and torchvision, with random weights.

Vision models have the classes of ImageNet, and their libraries' defaults.
"""

from collections.abc import Callable

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


def _timm(name: str, batch: int) -> Built:
    import timm

    model = timm.create_model(name, pretrained=False)
    return Labelled(model), lambda: batches.images(batch, 224, name="x")


def _torchvision(name: str, batch: int) -> Built:
    from torchvision.models import get_model

    model = get_model(name, weights=None)
    return Labelled(model), lambda: batches.images(batch, 224, name="x")


def resnet18_x1() -> Built:
    return _torchvision("resnet18", 1)


def resnet50_x4() -> Built:
    return _torchvision("resnet50", 4)


def mobilenetv3_large_x8() -> Built:
    return _torchvision("mobilenet_v3_large", 8)


def vit_small_x4() -> Built:
    return _timm("vit_small_patch16_224", 4)


def swin_tiny_x2() -> Built:
    return _timm("swin_tiny_patch4_window7_224", 2)


def convnext_atto_x4() -> Built:
    return _timm("convnext_atto", 4)


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
    "vit-small-x4": vit_small_x4,
    "swin-tiny-x2": swin_tiny_x2,
    "resnet18-x1": resnet18_x1,
    "resnet50-x4": resnet50_x4,
    "mobilenetv3-large-x8": mobilenetv3_large_x8,
    "convnext-atto-x4": convnext_atto_x4,
    "torch-encoder-2x32": torch_encoder_2x32,
}
