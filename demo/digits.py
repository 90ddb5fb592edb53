"""Trains a small residual CNN on scikit-learn's handwritten digits.

python demo/digits.py --device cpu
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions with batch norm, and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return functional.relu(y + self.shortcut(x))


class Net(nn.Module):
    """A residual network for 8x8 images."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.blocks = nn.Sequential(
            Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)
        )
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def load_data() -> tuple[torch.Tensor, ...]:
    """Training images and labels, then test images and labels."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train, test = train_test_split(
        torch.arange(len(labels)), test_size=0.2, random_state=0, stratify=labels
    )
    return images[train], labels[train], images[test], labels[test]


def evaluate(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of the images that the model labels right."""
    model.eval()
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return right


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="lazuli")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--max-steps", type=int, help="stop after so many steps")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--save", metavar="FILE", help="write the losses there")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.manual_seed(0)
    device = arguments.device
    train_x, train_y, test_x, test_y = (part.to(device) for part in load_data())
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    steps_per_epoch = -(-len(train_x) // arguments.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, arguments.learning_rate, total_steps=arguments.epochs * steps_per_epoch
    )

    losses, seconds = [], []
    for epoch in range(arguments.epochs):
        for chosen in torch.randperm(len(train_x)).split(arguments.batch_size):
            if len(losses) == arguments.max_steps:
                break
            begin = time.perf_counter()
            chosen = chosen.to(device)
            loss = functional.cross_entropy(model(train_x[chosen]), train_y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            seconds.append(time.perf_counter() - begin)
        mean = statistics.mean(losses[epoch * steps_per_epoch :] or [losses[-1]])
        print(f"epoch {epoch + 1:2}  loss {mean:.4f}", flush=True)
    accuracy = evaluate(model, test_x, test_y)

    steady = seconds[len(seconds) // 2 :]
    results = {
        "device": device,
        "result": f"test accuracy {accuracy:.2%}",
        "accuracy": accuracy,
        "losses": losses,
        "first_step_s": seconds[0],
        "steady_step_s": statistics.median(steady),
        "steps": len(seconds),
        "total_s": sum(seconds),
    }
    print(f"{results['result']}")
    print(f"first step {seconds[0] * 1e3:.1f} ms, steady {results['steady_step_s'] * 1e3:.1f} ms")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    if arguments.save:
        torch.save({"losses": torch.tensor(losses)}, arguments.save)


if __name__ == "__main__":
    main()
