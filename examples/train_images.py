"""Trains a convolution network on scikit-learn's digits, with mixed precision and checkpoints."""

import argparse
import os

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Images of 8 by 8 pixels, one channel."""

    def __init__(self, train: bool):
        images, labels = load_digits(return_X_y=True)
        part = slice(0, 1280) if train else slice(1280, None)
        self.images, self.labels = images[part], labels[part]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        image = torch.from_numpy(self.images[index]).float().reshape(1, 8, 8) / 16
        return image, int(self.labels[index])


class Block(nn.Module):
    """A residual block."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(y)))


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), Block(16), nn.MaxPool2d(2), Block(16),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


def train_epoch(model, loader, optimizer, scaler, device, dtype) -> float:
    model.train()
    losses = []
    for images, labels in loader:
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device_type=device.type, dtype=dtype):
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


@torch.no_grad()
def validate(model, loader, device) -> float:
    model.eval()
    right = 0
    for images, labels in loader:
        predicted = model(images.to(device)).argmax(1).cpu()
        right += (predicted == labels).sum().item()
    return right / len(loader.dataset)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--resume", default="")
    parser.add_argument("--output", default="checkpoint.pt")
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    if device.type == "cuda":
        torch.cuda.manual_seed_all(0)
        print(f"cuda devices {torch.cuda.device_count()}")

    loaders = [
        DataLoader(
            Digits(train),
            batch_size=64,
            shuffle=train,
            num_workers=2,
            pin_memory=device.type == "cuda",
            drop_last=train,
        )
        for train in (True, False)
    ]
    model = make_model().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    scaler = torch.amp.GradScaler(device.type)
    first = 0
    if args.resume:
        state = torch.load(args.resume, map_location=args.device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        scaler.load_state_dict(state["scaler"])
        first = state["epoch"] + 1
        print(f"resumed at epoch {first}")

    for epoch in range(first, args.epochs):
        loss = train_epoch(model, loaders[0], optimizer, scaler, device, torch.bfloat16)
        schedule.step()
        print(f"epoch {epoch} loss {loss:.4f}")
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "scaler": scaler.state_dict(),
            "epoch": epoch,
        }
        torch.save(state, args.output + ".new")
        os.replace(args.output + ".new", args.output)
    print(f"accuracy {validate(model, loaders[1], device):.4f}")


if __name__ == "__main__":
    main()
