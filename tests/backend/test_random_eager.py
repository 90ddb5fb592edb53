"""LAZULI_RANDOM=eager: what is drawn on the device is what the same script draws on the CPU."""

import pytest
import torch
from differential import both
from torch import nn


@pytest.fixture(autouse=True)
def eager_numbers(device):
    with torch.lazuli.config.patch(random="eager"):
        yield


def new(where, *shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device=where)


def probabilities(where):
    return torch.linspace(0, 1, 100).to(where)


DRAWS = {
    "rand": lambda d: torch.rand(3, 50, device=d),
    "rand float64": lambda d: torch.rand(50, device=d, dtype=torch.float64),
    "rand bfloat16": lambda d: torch.rand(50, device=d, dtype=torch.bfloat16),
    "randn": lambda d: torch.randn(7, device=d),
    "randn of many": lambda d: torch.randn(5, 100, device=d),
    "randn complex": lambda d: torch.randn(20, device=d, dtype=torch.complex64),
    "randn_like": lambda d: torch.randn_like(new(d, 20)),
    "randint": lambda d: torch.randint(-5, 1000, (50,), device=d),
    "randint_like": lambda d: torch.randint_like(new(d, 20), 9),
    "randperm": lambda d: torch.randperm(100, device=d),
    "uniform_": lambda d: new(d, 50).uniform_(-2, 3),
    "uniform_ of a view": lambda d: torch.zeros(20, 6, device=d)[:, ::2].uniform_(),
    "normal_": lambda d: new(d, 50).normal_(2, 3),
    "normal": lambda d: torch.normal(probabilities(d), probabilities(d)),
    "normal of numbers": lambda d: torch.normal(1.0, 2.0, (30,), device=d),
    "log_normal_": lambda d: new(d, 50).log_normal_(1, 2),
    "exponential_": lambda d: new(d, 50).exponential_(2),
    "geometric_": lambda d: new(d, 50).geometric_(0.3),
    "cauchy_": lambda d: new(d, 50).cauchy_(1, 2),
    "random_": lambda d: new(d, 50, dtype=torch.int64).random_(),
    "random_ to": lambda d: new(d, 50).random_(100),
    "random_ from": lambda d: new(d, 50, dtype=torch.int16).random_(-10, 100),
    "bernoulli_": lambda d: new(d, 50).bernoulli_(0.3),
    "bernoulli_ of probabilities": lambda d: new(d, 100).bernoulli_(probabilities(d)),
    "bernoulli": lambda d: torch.bernoulli(probabilities(d)),
    "binomial": lambda d: torch.binomial(torch.full((100,), 9.0).to(d), probabilities(d)),
    "poisson": lambda d: torch.poisson(probabilities(d) * 40),
    "multinomial": lambda d: torch.multinomial(probabilities(d), 30),
    "multinomial again": lambda d: torch.multinomial(probabilities(d), 300, replacement=True),
    "gamma": lambda d: torch._standard_gamma(probabilities(d) + 0.5),
    "dirichlet": lambda d: torch._sample_dirichlet(probabilities(d) + 0.5),
    "rrelu": lambda d: nn.functional.rrelu(torch.linspace(-1, 1, 50).to(d), training=True),
    "gumbel_softmax": lambda d: nn.functional.gumbel_softmax(probabilities(d)),
    "kaiming": lambda d: nn.init.kaiming_uniform_(new(d, 9, 9)),
    "trunc_normal_": lambda d: nn.init.trunc_normal_(new(d, 9, 9)),
    "orthogonal_": lambda d: nn.init.orthogonal_(new(d, 9, 9)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_are_eagers(name):
    """And what is drawn next is: both have taken as many numbers."""
    eager, ours = both(lambda d: [DRAWS[name](d), torch.rand(3, device=d), torch.rand(2)])
    for e, o in zip(eager, ours, strict=True):
        torch.testing.assert_close(o.cpu(), e, rtol=1e-6, atol=1e-6)


LAYERS = {
    "Dropout": (lambda: nn.Dropout(0.4), (8, 30)),
    "Dropout1d": (lambda: nn.Dropout1d(0.4), (8, 10, 4)),
    "Dropout2d": (lambda: nn.Dropout2d(0.4), (8, 10, 4, 4)),
    "Dropout3d": (lambda: nn.Dropout3d(0.4), (8, 10, 2, 2, 2)),
    "AlphaDropout": (lambda: nn.AlphaDropout(0.4), (8, 30)),
    "FeatureAlphaDropout": (lambda: nn.FeatureAlphaDropout(0.4), (8, 10, 4)),
    "RReLU": (lambda: nn.RReLU(), (8, 30)),
    "LSTM": (lambda: nn.LSTM(6, 5, num_layers=2, dropout=0.5), (4, 3, 6)),
    "attention": (lambda: nn.MultiheadAttention(8, 2, dropout=0.4), (5, 3, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3), (5, 3, 8)),
    "fractional": (lambda: nn.FractionalMaxPool2d(2, output_ratio=0.5), (2, 3, 8, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, shape = LAYERS[name]

    def train(where):
        layer = make().to(where)
        x = torch.randn(shape).to(where).requires_grad_()
        y = layer(*[x] * 3) if name == "attention" else layer(x)
        y = y[0] if isinstance(y, tuple) else y
        y.square().sum().backward()
        return y, x.grad

    eager, ours = both(train)
    for e, o in zip(eager, ours, strict=True):
        torch.testing.assert_close(o.cpu(), e, rtol=1e-4, atol=1e-5)


def test_a_model_trains_to_eagers_losses():
    def train(where):
        model = nn.Sequential(
            nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4), nn.Dropout(0.1)
        ).to(where)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(20):
            x = torch.randn(16, 10, device=where)
            loss = nn.functional.cross_entropy(model(x), torch.randint(4, (16,), device=where))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses)

    eager, ours = both(train)
    torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)


def test_a_generator_of_its_own():
    eager, ours = both(
        lambda d: torch.rand(9, device=d, generator=torch.Generator(d).manual_seed(3))
    )
    assert torch.equal(ours.cpu(), eager)


def test_states():
    def draw(where):
        g = torch.Generator(where)
        g.manual_seed(5)
        torch.rand(9, device=where, generator=g)
        state = g.get_state()
        first = torch.rand(9, device=where, generator=g)
        g.set_state(state)
        assert torch.equal(torch.rand(9, device=where, generator=g), first)
        return first, state, torch.tensor(g.initial_seed())

    for eager, ours in zip(*both(draw), strict=True):
        assert torch.equal(ours.cpu(), eager)


def test_checkpoint_draws_the_same_mask_again():
    def train(where):
        x = torch.randn(8, 8).to(where).requires_grad_()
        y = torch.utils.checkpoint.checkpoint(
            lambda x: nn.functional.dropout(x.sin(), 0.5).cos(), x, use_reentrant=False
        )
        y.sum().backward()
        return y, x.grad

    for eager, ours in zip(*both(train), strict=True):
        torch.testing.assert_close(ours.cpu(), eager)


def test_a_state_of_the_other_setting_is_an_error():
    g = torch.Generator("lazuli")
    with torch.lazuli.config.patch(random="philox"):
        state = g.get_state()
        assert state.numel() == 16
    with pytest.raises(RuntimeError, match="a generator's state is the CPU's"):
        g.set_state(state)
