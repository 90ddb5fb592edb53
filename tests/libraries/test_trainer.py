"""transformers' Trainer: however the device is named, the losses are eager's."""

import copy
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
Trainer = transformers.Trainer

STEPS = 6


def model(dropout=0.0):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=16,
        num_labels=3,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return transformers.BertForSequenceClassification(config)


def examples(number=32):
    draw = torch.Generator().manual_seed(1)
    words = torch.randint(0, 60, (number, 12), generator=draw, device="cpu")
    return [{"input_ids": row.tolist(), "labels": int(row[0]) % 3} for row in words]


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def trainer(folder, trained=None, **options):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        logging_steps=1,
        learning_rate=1e-3,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        **options,
    )
    return Trainer(
        model() if trained is None else trained,
        arguments,
        train_dataset=examples(),
        eval_dataset=examples(10),
        compute_metrics=accuracy,
    )


def losses(trained: Trainer) -> list[float]:
    return [entry["loss"] for entry in trained.state.log_history if "loss" in entry]


def run(folder, trained=None, resume=None, **options):
    """The trainer after training, its losses, and what evaluation says."""
    t = trainer(folder, trained, **options)
    t.train(resume_from_checkpoint=resume)
    measured = t.evaluate()
    return t, losses(t), [measured["eval_loss"], measured["eval_accuracy"]]


@pytest.mark.parametrize("way", ["environment", "default device", "take over"])
def test_device_is_named(tmp_path, name_device, way):
    # The order of a shuffled data set would be drawn from the default device's generator.
    order = {"train_sampling_strategy": "sequential"}
    _, expected, measured = run(tmp_path / "cpu", use_cpu=True, **order)
    trained = model()  # whose numbers would be drawn on the default device
    name_device(way)
    t, actual, ours = run(tmp_path / "lazuli", trained, **order)
    assert t.args.device.type == t.accelerator.device.type == t.model.device.type == "lazuli"
    assert len(actual) == STEPS
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert_close(ours, measured, rtol=1e-4, atol=1e-5)


def test_shuffled_data_set_with_a_default_device(tmp_path, name_device):
    name_device("default device")
    _, actual, _ = run(tmp_path, num_train_epochs=1)
    assert len(actual) == STEPS
    assert all(0 < loss < 3 for loss in actual)


def test_model_on_the_device_stays_there(tmp_path):
    _, expected, measured = run(tmp_path / "cpu")
    t, actual, ours = run(tmp_path / "lazuli", model().to("lazuli"))
    assert t.args.device.type == t.model.device.type == "lazuli"
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert_close(ours, measured, rtol=1e-4, atol=1e-5)


OPTIMIZED = """
import sys
from transformers import BertConfig, BertModel, Trainer, TrainingArguments
config = BertConfig(vocab_size=4, hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
                    intermediate_size=4)
arguments = TrainingArguments(output_dir=sys.argv[1], report_to=[])
trainer = Trainer(BertModel(config).to("lazuli"), arguments)
print(arguments.device.type, trainer.accelerator.device.type, trainer.model.device.type)
"""


def test_model_on_the_device_stays_there_where_python_drops_asserts(tmp_path):
    command = [sys.executable, "-O", "-W", "ignore", "-c", OPTIMIZED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["lazuli"] * 3, done.stderr


def test_nothing_is_named(tmp_path):
    t = trainer(tmp_path)
    assert t.args.device.type == t.accelerator.device.type == "cpu"


def test_use_cpu_is_obeyed(tmp_path, name_device):
    name_device("environment")
    t = trainer(tmp_path, use_cpu=True)
    assert t.args.device.type == t.accelerator.device.type == t.model.device.type == "cpu"


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_mixed_precision(tmp_path, name_device, kind):
    # fp16 on the CPU is not mixed precision in accelerate, but none.
    _, expected, _ = run(tmp_path / "cpu", use_cpu=True, bf16=True)
    name_device("environment")
    t, actual, _ = run(tmp_path / "lazuli", **{kind: True})
    assert t.accelerator.mixed_precision == kind
    assert t.accelerator.native_amp
    assert (t.accelerator.scaler is not None) == (kind == "fp16")
    with t.accelerator.autocast():
        x = torch.ones(2, 2, device="lazuli")
        assert (x @ x).dtype == (torch.bfloat16 if kind == "bf16" else torch.float16)
    assert_close(actual, expected, rtol=2e-2, atol=1e-2)


def test_mixed_precision_of_a_model_on_the_device(tmp_path):
    _, expected, _ = run(tmp_path / "cpu", use_cpu=True, bf16=True)
    t, actual, _ = run(tmp_path / "lazuli", model().to("lazuli"), bf16=True)
    assert t.model.device.type == "lazuli"
    assert_close(actual, expected, rtol=2e-2, atol=1e-2)


def test_gradient_accumulation_and_checkpointing(tmp_path, name_device):
    options = {"gradient_accumulation_steps": 2, "gradient_checkpointing": True}
    _, expected, _ = run(tmp_path / "cpu", use_cpu=True, **options)
    name_device("environment")
    _, actual, _ = run(tmp_path / "lazuli", **options)
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_resume_goes_on_where_training_was(tmp_path, name_device):
    """With dropout, whose random numbers are the device's."""
    name_device("environment")
    options = {"save_steps": 3}
    trained = model(dropout=0.2)
    t = trainer(tmp_path / "whole", copy.deepcopy(trained), **options)
    t.args.save_strategy = transformers.trainer_utils.SaveStrategy.STEPS
    t.train()
    whole = losses(t)
    again = trainer(tmp_path / "again", copy.deepcopy(trained), **options)
    torch.rand(5, device="lazuli")
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    assert len(whole) == STEPS
    assert_close(losses(again)[3:], whole[3:], rtol=1e-4, atol=1e-5)


def test_prediction(tmp_path, name_device):
    expected = trainer(tmp_path / "cpu", use_cpu=True).predict(examples(10)).predictions
    name_device("environment")
    actual = trainer(tmp_path / "lazuli").predict(examples(10)).predictions
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)
