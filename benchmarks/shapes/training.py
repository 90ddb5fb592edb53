"""Models in training whose batches differ in size: sentences, images and graphs."""

import itertools
import random
from collections.abc import Callable

import torch
from torch import nn

from benchmarks import harness

WIDTH, CLASSES, VOCABULARY = 64, 10, 1000
Batch = tuple[torch.Tensor, ...]
Step = Callable[[int], float]


class Encoder(nn.Module):
    """Four layers of a transformer, for tokens of shape (8, length)."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True)
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.tokens(tokens)).mean(1))


class Convolutions(nn.Module):
    """Six convolutions with normalization, for images of shape (8, 3, size, size)."""

    def __init__(self):
        super().__init__()
        widths = (3, 16, 16, 32, 32, WIDTH, WIDTH)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(here, there, 3, 1 + i % 2, 1), nn.BatchNorm2d(there), nn.ReLU()
                )
                for i, (here, there) in enumerate(itertools.pairwise(widths))
            )
        )
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(images).mean((2, 3)))


class Messages(nn.Module):
    """Four rounds of messages along the edges of a graph, whose nodes are classified."""

    def __init__(self):
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(4))
        self.updates = nn.ModuleList(nn.GRUCell(WIDTH, WIDTH) for _ in range(4))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        for message, update in zip(self.messages, self.updates, strict=True):
            sent = torch.relu(message(torch.cat([x[source], x[target]], -1)))
            x = update(torch.zeros_like(x).index_add(0, target, sent), x)
        return self.head(x)


class Bert(nn.Module):
    """Four layers of 256, for a batch of eight sentences and the mask of their padding."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=1024,
            num_labels=CLASSES,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.model = BertForSequenceClassification(config)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(tokens, mask).logits


class UNet(nn.Module):
    """Three levels with skip connections, for crops of shape (4, 3, height, width)."""

    def __init__(self):
        super().__init__()
        widths = (3, 16, 32, 64)
        self.down = nn.ModuleList(map(self._block, widths[:-1], widths[1:]))
        self.up = nn.ModuleList(
            self._block(there + here, here) for here, there in ((32, 64), (16, 32))
        )
        self.head = nn.Conv2d(16, CLASSES, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(4, outputs),
            nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.SiLU(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for block, skip in zip(self.up, kept[-2::-1], strict=True):
            x = nn.functional.interpolate(x, size=skip.shape[2:], mode="nearest")
            x = block(torch.cat([x, skip], 1))
        return self.head(x)


class Experts(nn.Module):
    """Two layers, each of four experts, among which a router sends each token to one."""

    def __init__(self):
        super().__init__()
        self.routers = nn.ModuleList(nn.Linear(2 * WIDTH, 4) for _ in range(2))
        self.experts = nn.ModuleList(
            nn.ModuleList(
                nn.Sequential(nn.Linear(2 * WIDTH, 512), nn.GELU(), nn.Linear(512, 2 * WIDTH))
                for _ in range(4)
            )
            for _ in range(2)
        )
        self.head = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for router, experts in zip(self.routers, self.experts, strict=True):
            weights, chosen = router(x).softmax(-1).max(-1)
            y = torch.zeros_like(x)
            for i, expert in enumerate(experts):
                rows = torch.where(chosen == i)[0]
                y = y.index_add(0, rows, expert(x[rows]) * weights[rows, None])
            x = x + y
        return self.head(x)


def sentences(n: int) -> Batch:
    return (torch.randint(VOCABULARY, (8, 16 + n)),)


def padded_sentences(n: int) -> Batch:
    lengths = torch.randint(8, 40, (8,))
    lengths[0] = 40 + n
    mask = (torch.arange(40 + n) < lengths[:, None]).long()
    return torch.randint(VOCABULARY, (8, 40 + n)), mask


def images(n: int) -> Batch:
    return (torch.randn(8, 3, 16 + n, 16 + n),)


def crops(n: int) -> Batch:
    height, width = 32 + n, 64 - n % 29
    return (torch.randn(4, 3, height, width),)


def graphs(n: int) -> Batch:
    nodes, edges = 200 + 3 * n, 600 + 7 * n
    return torch.randn(nodes, WIDTH), *(torch.randint(nodes, (edges,)) for _ in range(2))


def tokens_of_experts(n: int) -> Batch:
    return (torch.randn(512 + n, 2 * WIDTH),)


def moved(make: Callable[[int], Batch]) -> Callable[[torch.device], Callable[[int], Batch]]:
    return lambda device: lambda n: tuple(part.to(device) for part in make(n))


def slices(device: torch.device) -> Callable[[int], Batch]:
    corpus = torch.randint(VOCABULARY, (8 * 256, 32)).to(device)
    return lambda n: (corpus[8 * n : 8 * n + 8],)


MODELS: dict[str, tuple[type[nn.Module], Callable[[torch.device], Callable[[int], Batch]]]] = {
    "encoder": (Encoder, moved(sentences)),
    "bert": (Bert, moved(padded_sentences)),
    "convolutions": (Convolutions, moved(images)),
    "u-net": (UNet, moved(crops)),
    "messages": (Messages, moved(graphs)),
    "experts": (Experts, moved(tokens_of_experts)),
    "slices": (Encoder, slices),
}


def take_step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> float:
    """A step along the loss's gradient; gives the loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def make_step(name: str, arm: str) -> Step:
    """A function that takes a step of shape n and returns its loss."""
    torch.manual_seed(0)
    model_class, source = MODELS[name]
    device = harness.device_of(arm)
    make_batch = source(device)
    model = model_class().to(device)
    run = harness.compiled(arm, model, dynamic=True)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(n: int) -> float:
        torch.manual_seed(n)
        scores = run(*make_batch(n))
        labels = torch.arange(len(scores), device=device) % CLASSES
        if scores.dim() == 4:
            labels = labels[:, None, None].expand(-1, *scores.shape[2:])
        loss = nn.functional.cross_entropy(scores, labels)
        return take_step(optimizer, loss)

    return step


def make_detector_step(arm: str) -> Step:
    """A detector (SSD) that learns from two images with random boxes."""
    from torchvision.models import detection

    torch.manual_seed(0)
    device = harness.device_of(arm)
    model = detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=4
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step(n: int) -> float:
        torch.manual_seed(n)
        pictures, targets = [], []
        for i in range(2):
            pictures.append(torch.rand(3, 200 + n + i, 240 - n).to(device))
            corner = torch.rand(random.Random(n + i).randint(1, 9), 2) * 100
            boxes = torch.cat([corner, corner + 20 + torch.rand(len(corner), 2) * 60], 1)
            labels = torch.randint(1, 4, (len(corner),))
            targets.append({"boxes": boxes.to(device), "labels": labels.to(device)})
        loss = sum(model(pictures, targets).values())
        return take_step(optimizer, loss)

    return step
