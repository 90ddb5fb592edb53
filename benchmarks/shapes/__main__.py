"""Measures training steps (AdamW) whose shape was never there before: sentences, images and graphs.

The batches of `slices` have one shape, and each is another part of one tensor.

torch.compile and lazuli have their kernels by then: the first steps, of other shapes, are counted
apart. The same shapes come once more afterwards, so that what is new costs shows. Medians over the
shapes, and the arms take turns at each.
"""

import itertools
import random
import time
from collections.abc import Callable

import torch
from torch import nn

from benchmarks import harness

FIRST = 8  # steps, of as many shapes
WIDTH, CLASSES, VOCABULARY = 64, 10, 1000
Batch = tuple[torch.Tensor, ...]


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


def sentences(n: int) -> Batch:
    return (torch.randint(VOCABULARY, (8, 16 + n)),)


def images(n: int) -> Batch:
    return (torch.randn(8, 3, 16 + n, 16 + n),)


def graphs(n: int) -> Batch:
    nodes, edges = 200 + 3 * n, 600 + 7 * n
    return torch.randn(nodes, WIDTH), *(torch.randint(nodes, (edges,)) for _ in range(2))


def moved(make: Callable[[int], Batch]) -> Callable[[torch.device], Callable[[int], Batch]]:
    return lambda device: lambda n: tuple(part.to(device) for part in make(n))


def slices(device: torch.device) -> Callable[[int], Batch]:
    corpus = torch.randint(VOCABULARY, (8 * 256, 32)).to(device)
    return lambda n: (corpus[8 * n : 8 * n + 8],)


MODELS: dict[str, tuple[type[nn.Module], Callable[[torch.device], Callable[[int], Batch]]]] = {
    "encoder": (Encoder, moved(sentences)),
    "convolutions": (Convolutions, moved(images)),
    "messages": (Messages, moved(graphs)),
    "slices": (Encoder, slices),
}


def make_step(name: str, arm: str) -> Callable[[int], float]:
    """A function that takes a step of shape n and returns its loss."""
    torch.manual_seed(0)
    model_class, source = MODELS[name]
    device = harness.device_of(arm)
    make_batch = source(device)
    model = model_class().to(device)
    run = harness.compiled(arm, model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(n: int) -> float:
        torch.manual_seed(n)
        scores = run(*make_batch(n))
        labels = torch.arange(len(scores), device=device) % CLASSES
        loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def timed(step: Callable[[int], float], shapes: range | list[int]) -> float:
    begin = time.perf_counter()
    for n in shapes:
        step(n)
    return time.perf_counter() - begin


def compare(name: str, arms: list[str], rounds: int) -> dict[str, object]:
    """One row of the table."""
    torch._dynamo.reset()
    steps = {arm: make_step(name, arm) for arm in arms}
    first = {arm: timed(step, range(FIRST)) for arm, step in steps.items()}
    shapes = random.Random(0).sample(range(FIRST, FIRST + rounds), rounds)  # each once
    row: dict[str, object] = {"model": name}
    for what in ("new", "seen"):
        seconds: dict[str, list[float]] = {arm: [] for arm in arms}
        for i, n in enumerate(shapes):
            for arm in arms if i % 2 == 0 else list(reversed(arms)):
                seconds[arm].append(timed(steps[arm], [n]))
        row |= {f"{arm} {what} ms": t * 1e3 for arm, t in harness.medians(seconds).items()}
    return row | {f"{arm} first {FIRST} s": t for arm, t in first.items()}


def main() -> None:
    parser = harness.argument_parser("shapes", __doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.set_defaults(rounds=41)
    arguments = parser.parse_args()
    harness.start(arguments)
    rows = []
    for name in arguments.models:
        print(f"[shapes] {name} ...", flush=True)
        rows.append(compare(name, arguments.arms, arguments.rounds))
        harness.save(arguments.json, rows)
    print()
    harness.print_table(rows)


if __name__ == "__main__":
    main()
