"""Small modules for tests of torch's tools, each with an input."""

import torch
from torch import nn
from torch.nn import functional as F


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.lstm(x)[0])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Heads(nn.Module):
    """Attention written by hand, over torch's function."""

    def __init__(self):
        super().__init__()
        self.of_all = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.of_all(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Writes(nn.Module):
    """Writes into views, into its input's product and into a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(8))

    def forward(self, x):
        y = self.linear(x)
        y.mul_(2)
        y[:, 0] = 0
        self.calls.add_(1)
        return F.relu_(y) + self.calls


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(8, 4, 2, 2),
        nn.GroupNorm(2, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    )


def perceptron():
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4))


def encoder():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


def embedding():
    return nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 2))


def sequence():
    return torch.randn(2, 5, 8)


MODELS = {
    "perceptron": (perceptron, sequence),
    "convolutions": (convolutions, lambda: torch.randn(2, 3, 8, 8)),
    "lstm": (Recurrent, sequence),
    "attention": (Attention, sequence),
    "heads": (Heads, sequence),
    "encoder": (encoder, sequence),
    "writes": (Writes, sequence),
    "embedding": (embedding, lambda: torch.randint(0, 10, (2, 5))),
}


def make(name: str, device: str, train: bool = True):
    """The module and its input, with the same numbers on each device."""
    torch.manual_seed(0)
    module, data = MODELS[name]
    return module().to(device).train(train), data().to(device)
