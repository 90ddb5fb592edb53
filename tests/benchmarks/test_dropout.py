"""Dropout is as a model has it, or none is left."""

import pytest
import timm
import torch
import torchvision
from torch import nn

from benchmarks.models import dropout, zoo
from benchmarks.models.steps import Conditions


def swin_branches() -> tuple[nn.Module, torch.Tensor]:
    model = timm.create_model("swin_tiny_patch4_window7_224", drop_path_rate=0.9)
    return model, torch.randn(2, 3, 224, 224)


def attention() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.5, batch_first=True)
    return layer, torch.randn(2, 8, 16)


def recurrent() -> tuple[nn.Module, torch.Tensor]:
    return nn.GRU(8, 8, num_layers=2, dropout=0.5), torch.randn(4, 2, 8)


def torchvision_branches() -> tuple[nn.Module, torch.Tensor]:
    return torchvision.ops.StochasticDepth(0.5, "row"), torch.randn(64, 4)


BUILDERS = [swin_branches, attention, recurrent, torchvision_branches]


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_nothing_random_is_left(build):
    model, x = build()
    model.train()

    def first(output):
        return output[0] if isinstance(output, tuple) else output

    assert dropout.rates(model)
    assert not torch.equal(first(model(x)), first(model(x)))
    dropout.remove(model)
    assert not dropout.rates(model)
    assert torch.equal(first(model(x)), first(model(x)))


@pytest.mark.parametrize("name", ["bert-narrow", "gpt2", "vit", "gru"])
def test_the_models_train_without_it(name):
    model, make_batch = zoo.MODELS[name]()
    batch = {key: value[:1] for key, value in make_batch().items()}
    model.train()
    dropout.remove(model)
    first, second = (model(**batch) for _ in range(2))
    scores = [x if isinstance(x, torch.Tensor) else x.logits for x in (first, second)]
    assert torch.equal(*scores)


def test_the_table_says_what_is_dropped():
    assert Conditions().dropout_of("bert-narrow") == "0.1"
    assert Conditions(without_dropout=True).dropout_of("bert-narrow") == "left out (0.1)"
    assert Conditions(without_dropout=True).dropout_of("vit") == "none"
