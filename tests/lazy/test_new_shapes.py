"""Training steps on batches of other sizes end alike, and take the end's plan over."""

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


def compiles():
    """Of each trace compiled since the last call: what explain() says."""
    return [line for line in str(torch.lazuli.explain()).splitlines() if line.startswith("compile")]


@pytest.fixture
def explained(device):
    torch.lazuli.synchronize()
    torch.lazuli.explain()


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.AdamW, {}),
        (torch.optim.Adam, {"amsgrad": True, "foreach": False}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.RMSprop, {}),
    ],
)
def test_losses_and_parameters(optimizer, options, explained):
    assert_same(lambda device: train(device, optimizer, **options), rtol=1e-4, atol=1e-5)
    assert any("planned before" in line for line in compiles())


def test_the_same_numbers_as_planned_whole(device):
    """Not nearly: the same operations are done in the same order."""
    parts = train(device)
    with torch.lazuli.config.patch(reuse_suffixes=False):
        whole = train(device)
    for a, b in zip([*parts[0], *parts[1]], [*whole[0], *whole[1]], strict=True):
        assert torch.equal(a, b)


def test_it_can_be_turned_off(explained):
    with torch.lazuli.config.patch(reuse_suffixes=False):
        train("lazuli")
    assert not any("planned before" in line for line in compiles())


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


def test_another_learning_rate(explained):
    """Numbers are no part of a plan."""
    layers = 7  # so that no test before has left the same traces

    def slow_down(model, optimizer):
        optimizer.param_groups[0]["lr"] *= 0.5

    assert_same(
        lambda device: train(device, between=slow_down, layers=layers), rtol=1e-4, atol=1e-5
    )
    assert any("planned before" in line for line in compiles())


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


def test_sequences_of_any_length(explained):
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
    assert any("planned before" in line for line in compiles())


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
