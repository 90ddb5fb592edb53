"""Steps of other sizes and other structure are made of parts that were there before."""

import random
import re

import pytest
import torch
from differential import assert_same, normal
from torch import nn

SIZES = (5, 9, 12, 7, 9, 30, 5, 1, 18)


def model_and_optimizer(device, optimizer=torch.optim.AdamW, layers=6, **options):
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(layers)]
    model = nn.Sequential(*blocks, nn.Linear(16, 4)).to(device)
    return model, optimizer(model.parameters(), lr=1e-2, **options)


def take_step(optimizer, loss, between=lambda: None):
    optimizer.zero_grad()
    loss.backward()
    between()
    optimizer.step()
    return loss.detach()


def train(device, *args, between=lambda model, optimizer: None, **options):
    """Losses and parameters after a step on each batch."""
    model, optimizer = model_and_optimizer(device, *args, **options)
    losses = []
    for size in SIZES:
        loss = model(normal(size, 16, device=device)).square().mean()
        losses.append(take_step(optimizer, loss, lambda: between(model, optimizer)))
    return losses, list(model.parameters())


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.AdamW, {}),
        (torch.optim.Adam, {"amsgrad": True, "foreach": False}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.RMSprop, {}),
    ],
)
def test_losses_and_parameters(optimizer, options, counters):
    assert_same(lambda device: train(device, optimizer, **options), rtol=1e-4, atol=1e-5)
    assert counters()["parts_reused"] > 0


@pytest.mark.parametrize("tiers", ["parts", "plans"])
def test_each_tier(tiers, counters):
    layers = {"parts": 4, "plans": 5}[tiers]  # so that no test before has left the same parts
    with torch.lazuli.config.patch(tiers=tiers):
        assert_same(lambda device: train(device, layers=layers), rtol=1e-4, atol=1e-5)
    assert (counters()["traces_in_parts"] > 0) == (tiers == "parts")
    assert (counters()["traces_compiled"] > 0) == (tiers == "plans")


def test_a_trace_that_comes_often_is_planned_whole(device, counters):
    """Not before it has come `plan_after` times, and not again."""
    model, optimizer = model_and_optimizer(device, layers=3)
    x, planned, parts = normal(11, 16, device=device), [], []
    with torch.lazuli.config.patch(plan_after=2):
        for _ in range(6):
            take_step(optimizer, model(x).square().mean())
            torch.lazuli.synchronize()
            planned.append(counters()["traces_compiled"])
            parts.append(counters()["parts_compiled"])
    # The first step has no state of the optimizer yet, so that its trace is another.
    assert planned == [0, 0, 0, 1, 1, 1]
    assert parts[1] == parts[-1]


def test_explain_says_how_many_parts_were_new(device):
    torch.lazuli.synchronize()
    torch.lazuli.explain()
    model, optimizer = model_and_optimizer(device, layers=8)
    take_step(optimizer, model(normal(13, 16, device=device)).square().mean())
    torch.lazuli.synchronize()
    assert re.search(
        r"trace of \d+ ops, in \d+ parts, \d+ of them new", str(torch.lazuli.explain())
    )


class Tree(nn.Module):
    """A cell for each node of a binary tree, over words."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.cell = nn.Linear(16, 8)

    def forward(self, tree):
        if isinstance(tree, int):
            return self.words(torch.tensor([tree], device=self.words.weight.device))
        return self.cell(torch.cat([self(child) for child in tree], 1)).tanh()


def random_tree(rng, words):
    if len(words) == 1:
        return words[0]
    at = rng.randint(1, len(words) - 1)
    return random_tree(rng, words[:at]), random_tree(rng, words[at:])


def test_trees_of_any_shape(counters):
    """A node of a tree is the same part wherever it hangs."""

    def compute(device):
        torch.manual_seed(0)
        rng, model = random.Random(0), Tree().to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        losses = []
        for _ in range(12):
            tree = random_tree(rng, rng.sample(range(20), rng.randint(3, 9)))
            losses.append(take_step(optimizer, model(tree).square().mean()))
        return losses, list(model.parameters())

    assert_same(compute, rtol=1e-4, atol=1e-5)
    assert counters()["parts_reused"] > 2 * counters()["parts_compiled"]


def test_episodes_of_any_length(counters):
    """How many results are stacked is in no kernel."""

    def compute(device):
        torch.manual_seed(0)
        policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
        losses = []
        for length in (5, 9, 6, 14, 11, 7, 20, 17):
            state, chances = normal(3, device="cpu"), []
            for _ in range(length):
                scores = policy(state.to(device)).log_softmax(-1)
                chosen = scores.argmax().item()
                chances.append(scores[chosen])
                state = state.roll(1) + chosen
            gains = torch.arange(length, device=device) / length
            losses.append(take_step(optimizer, -(torch.stack(chances) * gains).sum()))
        return losses, list(policy.parameters())

    compute("lazuli")
    before = counters()["kernels_compiled"]
    assert_same(compute, rtol=1e-4, atol=1e-5)
    assert counters()["kernels_compiled"] - before < 4


def test_gradients_and_weights_that_somebody_keeps():
    """What another name reads is not written over, though the plan was made when there was none."""

    def compute(device):
        kept = []

        def keep(model, optimizer):
            if len(kept) % 2:
                kept.append([p.detach().clone() for p in model.parameters()])
            else:
                kept.append([p.grad for p in model.parameters()])

        return train(device, between=keep), kept

    assert_same(compute, rtol=1e-4, atol=1e-5)


def test_clipped_gradients():
    def clip(model, optimizer):
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)

    assert_same(lambda device: train(device, between=clip), rtol=1e-4, atol=1e-5)


def test_another_learning_rate(counters):
    """Numbers are no part of a plan."""
    layers = 7  # so that no test before has left the same traces

    def slow_down(model, optimizer):
        optimizer.param_groups[0]["lr"] *= 0.5

    assert_same(
        lambda device: train(device, between=slow_down, layers=layers), rtol=1e-4, atol=1e-5
    )
    assert counters()["parts_reused"] > 0


def test_two_models_in_turn():
    def compute(device):
        first, second = model_and_optimizer(device), model_and_optimizer(device, layers=9)
        losses = []
        for size in SIZES:
            for model, optimizer in (first, second):
                loss = model(normal(size, 16, device=device)).square().mean()
                losses.append(take_step(optimizer, loss))
        return losses, list(first[0].parameters()), list(second[0].parameters())

    assert_same(compute, rtol=1e-4, atol=1e-5)


def test_images_of_any_size(planned, device, counters):
    """Convolutions, whose images lie channels-last: plans hold none of their sizes."""
    compiled = []

    def run(where):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 24, 3, stride=2, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 8, 1),
        ).to(where)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        losses = []
        for size in (40, 48, 44, 52, 60, 56, 64, 46):
            torch.lazuli.reset_metrics()
            loss = model(normal(2, 3, size, size + 4, device=where)).square().mean()
            losses.append(take_step(optimizer, loss).cpu())
            if where == device:
                compiled.append(counters()["parts_compiled"])
        return losses, list(model.parameters())

    assert_same(run, rtol=1e-4, atol=1e-5)
    assert compiled[0] > 0
    assert compiled[-4:] == [0] * 4


def test_images_enlarged_to_any_size(planned, device, counters):
    compiled = []

    def run(where):
        torch.manual_seed(0)
        before, after = (nn.Conv2d(3, 3, 3, padding=1).to(where) for _ in range(2))
        optimizer = torch.optim.SGD([*before.parameters(), *after.parameters()], 1e-2)
        losses = []
        for size in (20, 24, 22, 26, 30, 28, 32, 23):
            torch.lazuli.reset_metrics()
            x = before(normal(2, 3, size, size + 4, device=where))
            x = torch.nn.functional.interpolate(x, size=(2 * size + 1, 2 * size + 9))
            losses.append(take_step(optimizer, after(x).square().mean()).cpu())
            if where == device:
                assert counters()["external_calls"] == {}
                compiled.append(counters()["parts_compiled"])
        return losses

    assert_same(run, rtol=1e-4, atol=1e-5)
    assert compiled[0] > 0
    assert compiled[-4:] == [0] * 4


def test_sequences_of_any_length(counters):
    """The traces have other operations before the end, not only other sizes."""

    def compute(device):
        torch.manual_seed(0)
        cell, head = nn.GRUCell(8, 16).to(device), nn.Linear(16, 4).to(device)
        norms = nn.Sequential(*[nn.LayerNorm(16) for _ in range(4)]).to(device)
        modules = nn.ModuleList([cell, head, norms])
        optimizer = torch.optim.AdamW(modules.parameters(), 1e-2)
        losses = []
        for length in (3, 5, 2, 7, 4):
            state = torch.zeros(6, 16, device=device)
            for x in normal(length, 6, 8, device=device):
                state = cell(x, state)
            loss = head(norms(state)).square().mean()
            losses.append(take_step(optimizer, loss))
        return losses, list(modules.parameters())

    assert_same(compute, rtol=1e-4, atol=1e-5)
    assert counters()["parts_reused"] > 0


def packed_steps(device):
    """Losses and gradients of an LSTM over packed sequences of other lengths in each step."""
    torch.manual_seed(0)
    layer = nn.LSTM(6, 5, batch_first=True).double().to(device)
    numbers = torch.Generator().manual_seed(0)
    for _ in range(24):
        lengths = torch.randint(2, 14, (4,), generator=numbers)
        x = torch.randn(4, 14, 6, generator=numbers, dtype=torch.float64).to(device)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        loss = layer(packed)[0].data.square().sum()
        layer.zero_grad()
        loss.backward()
        yield [loss.item(), *(p.grad.cpu() for p in layer.parameters())]


def test_packed_sequences_of_any_lengths(device, counters):
    """How many steps and rows there are is in few kernels: most are known after some steps."""
    compiled = []
    for actual, expected in zip(packed_steps(device), packed_steps("cpu"), strict=True):
        torch.testing.assert_close(actual, expected)
        compiled.append(counters()["kernels_compiled"])
    assert compiled[-1] - compiled[7] < 16  # in as many steps


def test_an_error_before_the_end(device):
    """It fails the step's values as it would in one plan, and the next step is as good as ever."""
    embedding = nn.Embedding(10, 16).to(device)
    head = nn.Sequential(*[nn.Linear(16, 16) for _ in range(5)]).to(device)
    parameters = [*embedding.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, 0.1)

    def step(tokens):
        loss = head(embedding(tokens.to(device))).square().mean()
        return take_step(optimizer, loss).item()

    for size in (3, 5, 7):
        step(torch.arange(size))
    saved = [p.detach().cpu() for p in parameters]
    with pytest.raises(IndexError):
        step(torch.tensor([1, 2, 3, 99]))
    with torch.no_grad():
        for p, s in zip(parameters, saved, strict=True):
            p.set_(s.to(device))
    assert step(torch.arange(6)) > 0
