"""What models give when they infer and when they train."""

import torch
from torch import nn

from benchmarks.models import batches, heads, zoo


class Language(nn.Module):
    """Gives logits that prefer the token after the one that it sees."""

    def forward(self, input_ids):
        logits = nn.functional.one_hot((input_ids + 1) % 7, 7).float() * 20
        return type("Output", (), {"logits": logits})()


def test_a_language_model_says_how_probable_each_token_was():
    ids = torch.tensor([[1, 2, 3, 5]])
    scores = heads.Inference(Language())(input_ids=ids)
    assert scores.shape == (1, 3)
    assert (scores[0, :2] > -0.1).all()
    assert scores[0, 2] < -10


def test_a_plain_module_gives_scores_or_a_loss():
    module = heads.Labelled(nn.Linear(4, batches.CLASSES))
    x, labels = torch.randn(3, 4), torch.tensor([1, 2, 3])
    assert module(x).shape == (3, batches.CLASSES)
    assert module(x, labels).dim() == 0


def test_inference_sees_no_labels():
    model, make_batch = zoo.demo_cnn()
    batch = heads.without_labels(make_batch())
    assert "labels" not in batch
    assert heads.Inference(model)(**batch).shape == (64, batches.CLASSES)
