"""Programs that learn from examples: tables, text, pictures, graphs and ratings."""

import copy
from collections.abc import Iterator

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from torch import nn
from torch.nn import functional as F

from benchmarks.programs.program import STEPS, Loss


def tabular(device: str) -> Iterator[Loss]:
    """An MLP with batch norm on scikit-learn's data about breast cancer."""
    data = load_breast_cancer()
    x = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0), dtype=torch.float32)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, torch.tensor(data.target)), batch_size=64, shuffle=True
    )
    model = nn.Sequential(
        *(nn.Linear(30, 128), nn.BatchNorm1d(128), nn.ReLU()),
        *(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 2)),
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(STEPS):
        if step % len(loader) == 0:
            batches = iter(loader)
        inputs, labels = next(batches)
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        yield loss.item()


def language(device: str) -> Iterator[Loss]:
    """A GRU that predicts the next letter of a text, whose gradient is clipped."""
    text = "the quick brown fox jumps over the lazy dog and runs away from the old grey wolf " * 60
    letters = sorted(set(text))
    codes = torch.tensor([letters.index(letter) for letter in text])
    embedding = nn.Embedding(len(letters), 32).to(device)
    units = nn.GRU(32, 64, batch_first=True).to(device)
    head = nn.Linear(64, len(letters)).to(device)
    parameters = [*embedding.parameters(), *units.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, 5e-3)
    for _ in range(STEPS):
        begins = torch.randint(len(codes) - 33, (16,))
        batch = torch.stack([codes[b : b + 33] for b in begins]).to(device)
        scores = head(units(embedding(batch[:, :-1]))[0])
        loss = F.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        yield loss.item()


def factorization(device: str) -> Iterator[Loss]:
    """Ratings as products of users' and items' factors, with biases."""
    users, items, factors = 500, 300, 16
    truth = torch.randn(users, 4) @ torch.randn(4, items)
    p, q = nn.Embedding(users, factors).to(device), nn.Embedding(items, factors).to(device)
    b, c = nn.Embedding(users, 1).to(device), nn.Embedding(items, 1).to(device)
    parameters = [w for module in (p, q, b, c) for w in module.parameters()]
    optimizer = torch.optim.Adam(parameters, 1e-2)
    for _ in range(STEPS):
        user, item = torch.randint(users, (256,)), torch.randint(items, (256,))
        rating = truth[user, item].to(device)
        user, item = user.to(device), item.to(device)
        predicted = (p(user) * q(item)).sum(1) + b(user).squeeze(1) + c(item).squeeze(1)
        loss = F.mse_loss(predicted, rating) + 1e-3 * (p(user).pow(2) + q(item).pow(2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def word2vec(device: str) -> Iterator[Loss]:
    """Skip-grams with negative samples, by SGD."""
    words = 800
    frequency = 1 / torch.arange(1, words + 1).float()
    text = torch.multinomial(frequency, 5000, replacement=True)
    centers = nn.Embedding(words, 48).to(device)
    contexts = nn.Embedding(words, 48).to(device)
    optimizer = torch.optim.SGD([*centers.parameters(), *contexts.parameters()], 0.5)
    for _ in range(STEPS):
        at = torch.randint(2, len(text) - 2, (128,))
        near = text[at + torch.randint(1, 3, (128,))].to(device)
        noise = torch.multinomial(frequency**0.75, 128 * 5, replacement=True).view(128, 5)
        center = centers(text[at].to(device))
        real = (center * contexts(near)).sum(1)
        false = torch.bmm(contexts(noise.to(device)), center.unsqueeze(2)).squeeze(2)
        loss = -(F.logsigmoid(real).mean() + F.logsigmoid(-false).sum(1).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


class GraphAttention(nn.Module):
    """One head, over a list of edges."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.values = nn.Linear(inputs, outputs, bias=False)
        self.source, self.target = nn.Linear(outputs, 1), nn.Linear(outputs, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        h = self.values(x)
        source, target = edges
        scores = F.leaky_relu(self.source(h)[source] + self.target(h)[target], 0.2).squeeze(1)
        weights = (scores - scores.max()).exp()
        sums = torch.zeros(len(x), device=x.device).index_add(0, target, weights)
        weights = weights / (sums[target] + 1e-9)
        return torch.zeros_like(h).index_add(0, target, weights.unsqueeze(1) * h[source])


def gat(device: str) -> Iterator[Loss]:
    """Two layers of graph attention classify the nodes of one graph."""
    nodes = 400
    labels = torch.randint(4, (nodes,))
    x = (F.one_hot(labels, 32).float() + torch.randn(nodes, 32)).to(device)
    edges = torch.randint(nodes, (2, 3000)).to(device)
    labels = labels.to(device)
    first, second = GraphAttention(32, 32).to(device), GraphAttention(32, 4).to(device)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], 5e-3)
    for _ in range(STEPS):
        scores = second(F.elu(first(x, edges)), edges)
        loss = F.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def small_cnn(channels: int, classes: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, classes)),
    )


def augmentation(device: str) -> Iterator[Loss]:
    """A CNN on pictures that are flipped, turned and shifted on the device."""
    pictures, labels = torch.rand(256, 3, 32, 32), torch.randint(5, (256,))
    pictures += labels[:, None, None, None] / 5
    pictures, labels = pictures.to(device), labels.to(device)
    model = small_cnn(16, 5).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for step in range(STEPS):
        batch = torch.arange(step * 32, step * 32 + 32).remainder(256).to(device)
        x = pictures[batch]
        flip = (torch.rand(32) < 0.5).to(device)
        x = torch.where(flip[:, None, None, None], x.flip(3), x)
        angle, shift = 0.3 * torch.randn(32), 0.1 * torch.randn(32, 2)
        turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).view(-1, 2, 2)
        grid = F.affine_grid(
            torch.cat([turn, shift.unsqueeze(2)], 2).to(device),
            [32, 3, 32, 32],
            align_corners=False,
        )
        x = F.grid_sample(x, grid, align_corners=False)
        x = x * (1 + 0.2 * torch.randn(32, 1, 1, 1)).to(device)
        loss = F.cross_entropy(model(x), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def distillation(device: str) -> Iterator[Loss]:
    """A small network learns what a larger one says of scikit-learn's digits."""
    data = load_digits()
    x = torch.tensor(data.data / 16, dtype=torch.float32).to(device)
    y = torch.tensor(data.target).to(device)
    teacher = nn.Sequential(
        nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10)
    )
    teacher = teacher.to(device).eval()
    student = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    optimizer = torch.optim.Adam(student.parameters(), 3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        batch = torch.randint(len(x), (128,)).to(device)
        with torch.no_grad():
            wanted = F.softmax(teacher(x[batch]) / 3, 1)
        scores = student(x[batch])
        soft = F.kl_div(F.log_softmax(scores / 3, 1), wanted, reduction="batchmean") * 9
        loss = 0.7 * soft + 0.3 * F.cross_entropy(scores, y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.item()


def early_stopping(device: str) -> Iterator[Loss]:
    """A regression with dropout on scikit-learn's diabetes data: each epoch is followed by an
    evaluation, and the best weights are kept."""
    data = load_diabetes()
    x = torch.tensor(data.data * 20, dtype=torch.float32).to(device)
    y = torch.tensor((data.target - data.target.mean()) / data.target.std(), dtype=torch.float32)
    y = y.unsqueeze(1).to(device)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    best, kept, patience = np.inf, None, 0
    for _ in range(STEPS // 5):
        model.train()
        order = torch.randperm(342)
        losses = []
        for begin in range(0, 342, 70):  # the last batch is smaller
            batch = order[begin : begin + 70].to(device)
            loss = F.mse_loss(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            held_out = F.mse_loss(model(x[342:]), y[342:]).item()
        if held_out < best:
            best, kept, patience = held_out, copy.deepcopy(model.state_dict()), 0
        elif (patience := patience + 1) > STEPS:
            break
        yield from losses
    model.load_state_dict(kept)


PROGRAMS = {
    "tabular": tabular,
    "language": language,
    "factorization": factorization,
    "word2vec": word2vec,
    "gat": gat,
    "augmentation": augmentation,
    "distillation": distillation,
    "early-stopping": early_stopping,
}
