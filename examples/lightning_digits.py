"""Trains a small convolution network on scikit-learn's digits, as a Lightning module.

    python lightning_digits.py [epochs]

Nothing here says which device it runs on: Lightning chooses (`accelerator="auto"`).
"""

import sys

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Digits(L.LightningDataModule):
    """1,797 images of 8 x 8 points; the last 297 are for validation."""

    def setup(self, stage: str) -> None:
        images, labels = load_digits(return_X_y=True)
        x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        y = torch.tensor(labels)
        self.train = TensorDataset(x[:1500], y[:1500])
        self.valid = TensorDataset(x[1500:], y[1500:])

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, batch_size=100, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.valid, batch_size=100)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 10),
        )

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self.layers(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        scores = self.layers(x)
        self.log("valid_loss", F.cross_entropy(scores, y))
        self.log("valid_accuracy", (scores.argmax(1) == y).float().mean())

    def on_train_epoch_end(self):
        numbers = self.trainer.callback_metrics
        text = " ".join(f"{name} {float(numbers[name]):.4f}" for name in sorted(numbers))
        print(f"epoch {self.current_epoch}: {text}")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.trainer.max_epochs)
        return {"optimizer": optimizer, "lr_scheduler": schedule}


def main() -> None:
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator="auto",
        max_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    trainer.fit(Net(), Digits())
    print(f"trained on {trainer.strategy.root_device.type}")


if __name__ == "__main__":
    main()
