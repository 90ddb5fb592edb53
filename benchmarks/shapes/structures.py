"""Programs whose structure differs from step to step: packed sequences, trees, episodes."""

import random

import torch
from torch import nn

from benchmarks import harness
from benchmarks.shapes.training import CLASSES, VOCABULARY, WIDTH, Step, take_step


class PackedLSTM(nn.Module):
    """An LSTM over sequences of random lengths, packed."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.units = nn.LSTM(WIDTH, 2 * WIDTH, batch_first=True)
        self.head = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            self.tokens(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        _, (state, _) = self.units(packed)
        return self.head(state[-1])


def make_packed_step(arm: str) -> Step:
    torch.manual_seed(0)
    device = harness.device_of(arm)
    model = PackedLSTM().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(n: int) -> float:
        torch.manual_seed(n)
        lengths = torch.randint(5, 40, (16,))
        tokens = torch.randint(VOCABULARY, (16, int(lengths.max()))).to(device)
        labels = torch.arange(16, device=device) % CLASSES
        loss = nn.functional.cross_entropy(model(tokens, lengths), labels)
        return take_step(optimizer, loss)

    return step


class TreeLSTM(nn.Module):
    """A child-sum LSTM over binary trees of words, a cell at a time."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.word = nn.Linear(WIDTH, 3 * WIDTH)
        self.gates = nn.Linear(2 * WIDTH, 3 * WIDTH)
        self.forget = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tree, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.state_of(tree, self.tokens(words))[0])

    def state_of(self, tree, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(tree, int):
            i, o, u = self.word(words[tree : tree + 1]).chunk(3, 1)
            cell = i.sigmoid() * u.tanh()
            return o.sigmoid() * cell.tanh(), cell
        (left, left_cell), (right, right_cell) = (self.state_of(t, words) for t in tree)
        i, o, u = self.gates(torch.cat([left, right], 1)).chunk(3, 1)
        kept = self.forget(left).sigmoid() * left_cell + self.forget(right).sigmoid() * right_cell
        cell = i.sigmoid() * u.tanh() + kept
        return o.sigmoid() * cell.tanh(), cell


def random_tree(rng: random.Random, begin: int, end: int):
    """A binary tree over words [begin, end)."""
    if end - begin == 1:
        return begin
    middle = rng.randint(begin + 1, end - 1)
    return random_tree(rng, begin, middle), random_tree(rng, middle, end)


def make_trees_step(arm: str) -> Step:
    torch.manual_seed(0)
    device = harness.device_of(arm)
    model = TreeLSTM().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(n: int) -> float:
        torch.manual_seed(n)
        rng = random.Random(n)
        loss = 0.0
        for i in range(4):
            leaves = rng.randint(6, 16)
            words = torch.randint(VOCABULARY, (leaves,)).to(device)
            scores = model(random_tree(rng, 0, leaves), words)
            loss = loss + nn.functional.cross_entropy(scores, torch.tensor([i], device=device))
        return take_step(optimizer, loss)

    return step


def make_episodes_step(arm: str) -> Step:
    """REINFORCE: an episode of 8 to 40 actions, each read as it is drawn, and a step along its
    gradient. The world is a point that is pushed about on the host."""
    torch.manual_seed(0)
    device = harness.device_of(arm)
    policy = nn.Sequential(
        nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )
    policy = policy.to(device)
    optimizer = torch.optim.Adam(policy.parameters(), 1e-3)

    def step(n: int) -> float:
        torch.manual_seed(n)
        rng = random.Random(n)
        place, speed = rng.uniform(-1, 1), rng.uniform(-1, 1)
        chances, rewards = [], []
        for t in range(rng.randint(8, 40)):
            seen = torch.tensor([place, speed, place * speed, t / 40], device=device)
            action = torch.distributions.Categorical(logits=policy(seen))
            drawn = action.sample()
            chances.append(action.log_prob(drawn))
            speed += 0.1 if drawn.item() else -0.1
            place += 0.1 * speed
            rewards.append(-abs(place))
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.append(total)
        gains = torch.tensor(returns[::-1], device=device)
        gains = (gains - gains.mean()) / (gains.std() + 1e-6)
        loss = -(torch.stack(chances) * gains).sum()
        return take_step(optimizer, loss)

    return step
