"""transformers' pipelines: the device is the one that is named, or that the model is on."""

import pytest
import torch
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")


def classifier(device=None, model_on=None):
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
        num_labels=5,
    )
    model = transformers.ViTForImageClassification(config).eval()
    if model_on:
        model.to(model_on)
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
    return transformers.pipeline(
        "image-classification", model=model, image_processor=processor, device=device
    )


def image():
    Image = pytest.importorskip("PIL.Image")
    return Image.frombytes("RGB", (40, 40), bytes(i * 7 % 256 for i in range(40 * 40 * 3)))


def check(pipe):
    assert pipe.device.type == "lazuli"
    assert pipe.model.device.type == "lazuli"
    expected = classifier("cpu")(image())
    actual = pipe(image())
    assert [a["label"] for a in actual] == [e["label"] for e in expected]
    assert_close([a["score"] for a in actual], [e["score"] for e in expected], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["lazuli", "lazuli:0", torch.device("lazuli")])
def test_device_by_name(device):
    check(classifier(device))


def test_model_on_the_device_stays_there():
    check(classifier(model_on="lazuli"))


@pytest.mark.parametrize("way", ["environment", "take over"])
def test_device_where_it_is_named(name_device, way):
    name_device(way)
    check(classifier())


def test_cpu_is_obeyed(name_device):
    name_device("environment")
    assert classifier("cpu").device.type == "cpu"


def test_nothing_is_named():
    assert classifier().device.type != "lazuli"
