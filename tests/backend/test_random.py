"""Random numbers: seeds, generators, states, distributions."""

import pytest
import torch

DRAWS = {
    "rand": lambda g: torch.rand(1000, device="lazuli", generator=g),
    "randn": lambda g: torch.randn(1000, device="lazuli", generator=g),
    "randint": lambda g: torch.randint(0, 1000, (1000,), device="lazuli", generator=g),
    "randperm": lambda g: torch.randperm(1000, device="lazuli", generator=g),
    "uniform_": lambda g: torch.empty(1000, device="lazuli").uniform_(-1, 1, generator=g),
    "normal_": lambda g: torch.empty(1000, device="lazuli").normal_(2, 3, generator=g),
    "bernoulli_": lambda g: torch.empty(1000, device="lazuli").bernoulli_(0.5, generator=g),
    "exponential_": lambda g: torch.empty(1000, device="lazuli").exponential_(generator=g),
    "cauchy_": lambda g: torch.empty(1000, device="lazuli").cauchy_(1, 2, generator=g),
    "multinomial": lambda g: torch.multinomial(
        torch.ones(50, device="lazuli"), 1000, replacement=True, generator=g
    ),
    "one category": lambda g: torch.multinomial(
        torch.ones(1000, 50, device="lazuli"), 1, generator=g
    ),
    "normal of tensors": lambda g: torch.normal(
        torch.zeros(1000, device="lazuli"), torch.ones(1, device="lazuli"), generator=g
    ),
    "normal of means": lambda g: torch.normal(torch.ones(9, 99, device="lazuli"), 2, generator=g),
    "normal of deviations": lambda g: torch.normal(
        2.0, torch.ones(9, 99, device="lazuli"), generator=g
    ),
    "bernoulli": lambda g: torch.bernoulli(torch.full((1000,), 0.3, device="lazuli"), generator=g),
    "log_normal_": lambda g: torch.empty(1000, device="lazuli").log_normal_(1, 2, generator=g),
    "geometric_": lambda g: torch.empty(1000, device="lazuli").geometric_(0.1, generator=g),
    "poisson": lambda g: torch.poisson(torch.full((1000,), 40.0, device="lazuli"), generator=g),
}
each = pytest.mark.parametrize("name", DRAWS)


@each
def test_a_seed_gives_the_same_numbers(name):
    torch.manual_seed(7)
    first = DRAWS[name](None).cpu()
    second = DRAWS[name](None).cpu()
    torch.manual_seed(7)
    assert torch.equal(DRAWS[name](None).cpu(), first)
    assert torch.equal(DRAWS[name](None).cpu(), second)
    assert not torch.equal(first, second)


@each
def test_a_generator_of_its_own(name):
    g = torch.Generator("lazuli").manual_seed(3)
    assert g.device.type == "lazuli"
    assert g.initial_seed() == 3
    torch.manual_seed(0)
    first = DRAWS[name](g).cpu()
    DRAWS[name](None)
    second = DRAWS[name](g).cpu()
    assert not torch.equal(first, second)
    g.manual_seed(3)
    assert torch.equal(DRAWS[name](g).cpu(), first)
    assert torch.equal(DRAWS[name](g).cpu(), second)


@each
def test_the_state_can_be_set_back(name):
    g = torch.Generator("lazuli")
    g.manual_seed(5)
    DRAWS[name](g)
    state = g.get_state()
    first = DRAWS[name](g).cpu()
    g.set_state(state)
    assert torch.equal(DRAWS[name](g).cpu(), first)
    twin = g.clone_state() if hasattr(g, "clone_state") else g
    twin.set_state(state)
    assert torch.equal(DRAWS[name](twin).cpu(), first)


@each
def test_fork_rng_puts_the_state_back(name):
    torch.manual_seed(7)
    with torch.random.fork_rng(device_type="lazuli"):
        inside = DRAWS[name](None).cpu()
    assert torch.equal(DRAWS[name](None).cpu(), inside)


@pytest.mark.parametrize(
    "name",
    ["rand", "randn", "randint", "bernoulli_", "exponential_", "cauchy_", "one category",
     "normal of tensors", "normal of means", "normal of deviations", "bernoulli", "log_normal_",
     "geometric_"],
)  # fmt: skip
def test_what_kernels_of_ours_draw(name, counters):
    """These are part of the trace: no sync, no external call."""
    DRAWS[name](None)
    assert counters()["external_calls"] == {}
    assert counters()["syncs"] == {}


def test_seed_gives_an_unknown_seed():
    g = torch.Generator("lazuli")
    assert g.seed() == g.initial_seed()
    assert g.seed() != g.seed()


def test_moments():
    torch.manual_seed(0)
    n = 200_000
    u = torch.rand(n, device="lazuli").double().cpu()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 0.005
    assert abs(u.var() - 1 / 12) < 0.002
    z = torch.randn(n, device="lazuli").double().cpu()
    assert abs(z.mean()) < 0.01
    assert abs(z.var() - 1) < 0.02
    assert abs((z**3).mean()) < 0.05
    assert abs((z**4).mean() - 3) < 0.15
    b = torch.empty(n, device="lazuli").bernoulli_(0.3).double().cpu()
    assert abs(b.mean() - 0.3) < 0.005


def test_moments_of_other_distributions():
    torch.manual_seed(0)
    n = 200_000
    e = torch.empty(n, device="lazuli").exponential_(2).double().cpu()
    assert e.min() > 0
    assert abs(e.mean() - 0.5) < 0.005
    assert abs(e.var() - 0.25) < 0.01
    c = torch.empty(n, device="lazuli").cauchy_(1, 2).double().cpu()
    assert abs(c.median() - 1) < 0.03
    assert abs(c.quantile(0.75) - 3) < 0.06


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32]
)
def test_integers(dtype):
    torch.manual_seed(0)
    low = 0 if dtype == torch.uint8 else -3
    n = torch.randint(low, 5, (80_000,), device="lazuli", dtype=dtype).cpu()
    assert n.dtype == dtype
    values, counts = n.unique(return_counts=True)
    assert values.tolist() == list(range(low, 5))
    expected = 80_000 / (5 - low)
    assert (counts - expected).abs().max() < 6 * expected**0.5


@pytest.mark.parametrize(
    ("dtype", "most"),
    [(torch.uint8, 255), (torch.int8, 127), (torch.bool, 1), (torch.int32, 2**31)],
)
def test_integers_of_a_whole_type(dtype, most):
    torch.manual_seed(0)
    n = torch.empty(100_000, device="lazuli", dtype=dtype).random_().cpu().long()
    assert n.min() >= 0
    assert 0.99 * most <= n.max() <= most
    assert abs(n.double().mean() - most / 2) < 0.01 * most


@pytest.mark.parametrize("arguments", [(5, 5), (0, 300), (-1, 2)], ids=str)
def test_bad_ranges_of_integers(arguments):
    def draw(device):
        return torch.empty(3, dtype=torch.uint8, device=device).random_(*arguments)

    with pytest.raises(RuntimeError) as eager:
        draw("cpu")
    with pytest.raises(RuntimeError) as ours:
        draw("lazuli")
    assert str(ours.value) == str(eager.value)


def test_neighbours_are_independent():
    torch.manual_seed(0)
    z = torch.randn(2, 100_000, device="lazuli").double().cpu()
    assert abs(torch.corrcoef(z)[0, 1]) < 0.02
    assert abs(torch.corrcoef(torch.stack([z[0, 1:], z[0, :-1]]))[0, 1]) < 0.02
    again = torch.randn(100_000, device="lazuli").double().cpu()
    assert abs(torch.corrcoef(torch.stack([z[0], again]))[0, 1]) < 0.02


def test_moments_of_distributions_given_by_tensors():
    torch.manual_seed(0)
    n = 100_000
    mean = torch.tensor([[-3.0], [5.0]]).expand(2, n).to("lazuli")
    std = torch.tensor([[0.5], [4.0]]).to("lazuli")
    z = torch.normal(mean, std).double().cpu()
    for row, (m, s) in enumerate([(-3, 0.5), (5, 4)]):
        assert abs(z[row].mean() - m) < 0.02 * s
        assert abs(z[row].std() - s) < 0.02 * s
    p = torch.tensor([[0.0], [0.25], [1.0]]).expand(3, n).to("lazuli")
    b = torch.bernoulli(p).double().cpu().mean(1)
    assert b[0] == 0
    assert abs(b[1] - 0.25) < 0.005
    assert b[2] == 1
    assert torch.zeros(n, dtype=torch.int64, device="lazuli").bernoulli_(p[1]).sum() > 0.2 * n
    logs = torch.empty(n, device="lazuli").log_normal_(1, 2).double().cpu().log()
    assert abs(logs.mean() - 1) < 0.03
    assert abs(logs.std() - 2) < 0.03
    waits = torch.empty(n, dtype=torch.int64, device="lazuli").geometric_(0.25).double().cpu()
    assert waits.min() == 1
    assert abs(waits.mean() - 4) < 0.05
    assert abs((waits == 1).double().mean() - 0.25) < 0.005


def test_categories_by_their_weights():
    torch.manual_seed(0)
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0, 4.0])
    drawn = torch.multinomial(weights.expand(80_000, 5).to("lazuli"), 1)
    assert drawn.shape == (80_000, 1)
    assert drawn.dtype == torch.int64
    shares = drawn.cpu().flatten().bincount(minlength=5) / len(drawn)
    torch.testing.assert_close(shares, weights / weights.sum(), atol=0.01, rtol=0)
    assert torch.multinomial(weights.to("lazuli"), 1).shape == (1,)
    certain = torch.tensor([0.0, 0.0, 1e-30]).to("lazuli")
    assert torch.multinomial(certain, 1, replacement=True).item() == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype):
    torch.manual_seed(0)
    u = torch.rand(10_000, device="lazuli", dtype=dtype).cpu()
    assert u.dtype == dtype
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.double().mean() - 0.5) < 0.02


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_few_bits_of_a_type_change_no_probability(dtype):
    """What is drawn has the resolution of the arithmetic behind it, not that of the result."""
    torch.manual_seed(0)
    n = 1 << 20
    ones = torch.ones(n, device="lazuli", dtype=dtype)
    dropped = (torch.nn.functional.dropout(ones, 1e-3) == 0).sum().item() / n
    assert abs(dropped - 1e-3) < 2e-4
    assert 4.5 < torch.randn(n, device="lazuli", dtype=dtype).abs().max() < 6.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_exponential_numbers_divide(dtype):
    """They are above zero: `weights / noise` and its logarithm are finite."""
    torch.manual_seed(0)
    assert torch.empty(1 << 27, device="lazuli", dtype=dtype).exponential_().min() > 0


def test_dropout():
    torch.manual_seed(0)
    x = torch.ones(10_000, device="lazuli", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    kept = (y != 0).cpu()
    assert abs(kept.double().mean() - 0.75) < 0.02
    torch.testing.assert_close(y.cpu()[kept], torch.full((int(kept.sum()),), 4 / 3))
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


def test_dropout_off():
    x = torch.randn(100).to("lazuli")
    assert torch.equal(torch.nn.functional.dropout(x, 0.5, training=False).cpu(), x.cpu())
    assert torch.equal(torch.nn.functional.dropout(x, 0.0).cpu(), x.cpu())
    assert torch.equal(torch.nn.functional.dropout(x, 1.0).cpu(), torch.zeros(100))


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "alpha_dropout", "rrelu"])
def test_other_random_layers(name):
    def draw():
        torch.manual_seed(0)
        function = getattr(torch.nn.functional, name)
        shape = (4, 8, 5) if name == "dropout1d" else (4, 8, 5, 5)
        return function(torch.randn(shape).to("lazuli"), training=True).cpu()

    assert torch.equal(draw(), draw())


@pytest.mark.usefixtures("planned_at_once")
def test_rng_state_of_a_step_that_is_repeated_compiles_nothing(counters):
    def step():
        return torch.nn.functional.dropout(torch.ones(64, device="lazuli"), 0.5).cpu()

    for _ in range(3):
        step()
    compiled = counters()["traces_compiled"]
    assert not torch.equal(step(), step())
    assert counters()["traces_compiled"] == compiled


WITH_A_GENERATOR = {
    "rand": lambda **to: torch.rand(5, **to),
    "rand float64": lambda **to: torch.rand(5, dtype=torch.float64, **to),
    "randn": lambda **to: torch.randn(20, 2, **to),
    "randint": lambda **to: torch.randint(3, 90, (5,), **to),
    "randperm": lambda **to: torch.randperm(9, **to),
    "bernoulli_": lambda device, **g: torch.empty(9, device=device).bernoulli_(0.3, **g),
    "bernoulli": lambda device, **g: torch.bernoulli(torch.full((9,), 0.5, device=device), **g),
    "exponential_": lambda device, **g: torch.empty(9, device=device).exponential_(2, **g),
    "log_normal_": lambda device, **g: torch.empty(9, device=device).log_normal_(**g),
    "geometric_": lambda device, **g: torch.empty(9, device=device).geometric_(0.3, **g),
    "cauchy_": lambda device, **g: torch.empty(9, device=device).cauchy_(**g),
    "random_": lambda device, **g: torch.empty(9, device=device).random_(**g),
    "multinomial": lambda device, **g: torch.multinomial(torch.ones(9, device=device), 1, **g),
    "normal": lambda device, **g: torch.normal(torch.ones(9, device=device), 2.0, **g),
    "normal of deviations": lambda device, **g: torch.normal(2.0, torch.ones(9).to(device), **g),
    "normal of tensors": lambda device, **g: torch.normal(
        torch.ones(9).to(device), torch.ones(9).to(device), **g
    ),
    "a strided window": lambda device, **g: torch.zeros(9, device=device)[::2].uniform_(**g),
}


@pytest.mark.parametrize("draw", WITH_A_GENERATOR.values(), ids=WITH_A_GENERATOR)
def test_a_generator_of_the_cpu_draws_what_it_draws_there(device, draw):
    generator = torch.Generator()
    for _ in range(3):
        expected = draw(device="cpu", generator=generator.manual_seed(3))
        after = generator.get_state()
        drawn = draw(device=device, generator=generator.manual_seed(3))
        assert drawn.device.type == device
        torch.testing.assert_close(drawn.cpu(), expected, rtol=0, atol=0)
        assert torch.equal(generator.get_state(), after)


def test_a_generator_of_a_third_device_is_an_error(device):
    with pytest.raises(RuntimeError, match="same device"):
        torch.rand(3, device="cpu", generator=torch.Generator(device))


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**63, 2**64 - 1])
def test_seeds_of_64_bits(seed):
    torch.manual_seed(seed)
    assert torch.lazuli.initial_seed() == torch.initial_seed()
    first = torch.rand(4, device="lazuli")
    torch.lazuli.manual_seed(seed)
    assert torch.lazuli.initial_seed() == torch.initial_seed()
    assert torch.equal(torch.rand(4, device="lazuli"), first)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seeds_that_do_not_fit(seed):
    before = torch.lazuli.initial_seed()
    with pytest.raises(ValueError, match=f"a seed has 64 bits, which {seed} does not fit in"):
        torch.lazuli.manual_seed(seed)
    assert torch.lazuli.initial_seed() == before
