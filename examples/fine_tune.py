"""Fine-tunes a small BERT with transformers' Trainer, on sentences that are made here."""

import tempfile

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(0)
random = np.random.default_rng(0)
tokens = random.integers(5, 100, (96, 12))
labels = (tokens[:, :6].sum(1) > tokens[:, 6:].sum(1)).astype(int)


class Sentences(torch.utils.data.Dataset):
    def __init__(self, part: slice):
        self.tokens, self.labels = tokens[part], labels[part]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict:
        return {"input_ids": torch.tensor(self.tokens[index]), "labels": int(self.labels[index])}


config = BertConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=16,
            num_train_epochs=2,
            learning_rate=1e-3,
            logging_steps=4,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=Sentences(slice(0, 64)),
        eval_dataset=Sentences(slice(64, 96)),
        compute_metrics=lambda p: {"accuracy": float((p[0].argmax(1) == p[1]).mean())},
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(f"step {entry['step']} loss {float(entry['loss']):.4f}")
    results = trainer.evaluate()
print(f"eval loss {results['eval_loss']:.4f} accuracy {results['eval_accuracy']:.4f}")
