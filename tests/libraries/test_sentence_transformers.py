"""sentence-transformers: embeddings, and training with its own trainer, as on the CPU."""

import pytest
import torch
from torch.testing import assert_close

sentence_transformers = pytest.importorskip("sentence_transformers")
transformers = pytest.importorskip("transformers")
SentenceTransformer = sentence_transformers.SentenceTransformer
losses_of = pytest.importorskip("sentence_transformers.losses")

WORDS = ["a", "cat", "dog", "sat", "on", "the", "mat", "ran", "far", "away", "red", "blue"]
SENTENCES = ["a cat sat on the mat", "the dog ran far away", "a red dog", "the blue mat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small random model, as files."""
    where = tmp_path_factory.mktemp("model")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (where / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizer(str(where / "vocab.txt"))
    tokenizer.save_pretrained(where)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    transformers.BertModel(config).save_pretrained(where)
    return str(where)


def test_device_by_name(folder):
    expected = SentenceTransformer(folder, device="cpu").encode(SENTENCES)
    model = SentenceTransformer(folder, device="lazuli")
    assert model.device.type == "lazuli"
    assert_close(model.encode(SENTENCES), expected, rtol=1e-4, atol=1e-5)
    on_device = model.encode(SENTENCES, convert_to_tensor=True)
    assert on_device.device.type == "lazuli"
    scores = sentence_transformers.util.cos_sim(on_device, on_device)
    assert_close(scores.cpu(), sentence_transformers.util.cos_sim(expected, expected))


@pytest.mark.parametrize("way", ["environment", "take over"])
def test_device_where_it_is_named(folder, name_device, way):
    assert SentenceTransformer(folder).device.type != "lazuli"
    name_device(way)
    assert SentenceTransformer(folder).device.type == "lazuli"


def losses(folder, where, device, **options):
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    model = SentenceTransformer(folder, device=device)
    columns = {"first": SENTENCES * 4, "second": SENTENCES[::-1] * 4, "score": [0.1, 0.9] * 8}
    arguments = sentence_transformers.SentenceTransformerTrainingArguments(
        output_dir=str(where),
        max_steps=4,
        per_device_train_batch_size=4,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=device == "cpu",
        **options,
    )
    trainer = sentence_transformers.SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_dict(columns),
        loss=losses_of.CosineSimilarityLoss(model),
    )
    trainer.train()
    assert model.device.type == device
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_training_stays_on_the_device(folder, tmp_path):
    expected = losses(folder, tmp_path, "cpu")
    assert_close(losses(folder, tmp_path, "lazuli"), expected, rtol=1e-4, atol=1e-5)


def test_training_in_bf16(folder, tmp_path):
    expected = losses(folder, tmp_path, "cpu", bf16=True)
    actual = losses(folder, tmp_path, "lazuli", bf16=True)
    assert_close(actual, expected, rtol=5e-2, atol=2e-2)


def test_fit_stays_on_the_device(folder):
    pytest.importorskip("datasets")
    examples = [
        sentence_transformers.InputExample(texts=[a, b], label=0.5)
        for a, b in zip(SENTENCES, SENTENCES[::-1], strict=True)
    ]

    def weights(device):
        model = SentenceTransformer(folder, device=device)
        loader = torch.utils.data.DataLoader(examples, batch_size=2)
        loss = losses_of.CosineSimilarityLoss(model)
        # The CPU is the trainer's own choice; nothing is named on the device's side either.
        model.fit([(loader, loss)], epochs=1, warmup_steps=0, show_progress_bar=False)
        assert model.device.type == device
        return model.encode(SENTENCES)

    assert_close(weights("lazuli"), weights("cpu"), rtol=1e-3, atol=1e-4)


def test_cross_encoder(folder):
    pairs = list(zip(SENTENCES, SENTENCES[::-1], strict=True))

    def scores(device):
        torch.manual_seed(0)
        encoder = sentence_transformers.CrossEncoder(folder, num_labels=1, device=device)
        return encoder.predict(pairs)

    assert_close(scores("lazuli"), scores("cpu"), rtol=1e-4, atol=1e-5)
