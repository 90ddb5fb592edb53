"""What was never there before runs op by op, until it has come again."""

import pytest
import torch
from torch import nn

DEVICE = "lazuli"


@pytest.fixture(autouse=True)
def unplanned():
    with torch.lazuli.config.patch(unplanned="auto"):
        yield


def counted(*names):
    metrics = torch.lazuli.metrics()
    return tuple(metrics[name] for name in names)


def run(step, *arguments):
    """The step's result, and what it took: parts without a plan, parts with a new one."""
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    result = step(*arguments)
    result = result.cpu() if isinstance(result, torch.Tensor) else result
    torch.lazuli.synchronize()
    return result, *counted("parts_unplanned", "parts_compiled", "traces_compiled")


def test_until_it_is_planned_it_is_eagers_bit_for_bit():
    x, w = torch.randn(70, 80), torch.randn(80, 90)

    def step(x, w):
        return torch.softmax(torch.tanh(x @ w) * 3 + 0.125, -1).var(0).exp()

    for time in range(torch.lazuli.config.plan_after):
        result, unplanned, planned, whole = run(step, x.to(DEVICE), w.to(DEVICE))
        assert unplanned > 0 or time > 1  # later ones are known, and nothing is made
        assert planned == whole == 0
        assert torch.equal(result, step(x, w))
    result, unplanned, planned, whole = run(step, x.to(DEVICE), w.to(DEVICE))
    assert unplanned == planned == 0
    assert whole == 1
    torch.testing.assert_close(result, step(x, w))


def test_every_turn_of_a_loops_first_traces():
    w = torch.randn(33, 33, device=DEVICE)

    def step(turns):
        y = torch.ones(4, 33, device=DEVICE)
        for _ in range(turns):
            y = torch.tanh(y @ w + 0.25)
        return y

    for turns in (6, 7):
        _, unplanned, planned, _ = run(step, turns)
        assert unplanned >= turns
        assert planned == 0
    _, unplanned, planned, _ = run(step, 9)
    assert planned > 0
    assert unplanned <= 2


def test_other_sizes_the_third_time_make_a_plan_that_serves_all():
    def step(n):
        x = torch.linspace(0, 1, n).to(DEVICE)
        return (torch.sin(x) * x.exp()).sum()

    for n in (11, 13):
        _, unplanned, _, _ = run(step, n)
        assert unplanned > 0
    for n in (19, 23, 31):
        result, unplanned, planned, whole = run(step, n)
        assert unplanned == whole == 0
        assert planned == (n == 19)
        x = torch.linspace(0, 1, n)
        torch.testing.assert_close(result, (torch.sin(x) * x.exp()).sum())


def test_dropout_draws_the_same_whoever_computes():
    def step(seed):
        torch.manual_seed(seed)
        return nn.functional.dropout(torch.ones(50, 41, device=DEVICE), 0.3)

    first, unplanned, _, _ = run(step, 5)
    assert unplanned > 0
    for _ in range(torch.lazuli.config.plan_after):
        again, _, _, whole = run(step, 5)
        assert torch.equal(first, again)
    assert whole == 1
    assert 0.2 < (first == 0).double().mean() < 0.4


def test_dropout_that_is_differentiated_draws_the_same_whoever_computes():
    def step(seed):
        torch.manual_seed(seed)
        x = torch.ones(30, 41, device=DEVICE, requires_grad=True)
        nn.functional.dropout(x, 0.3).sum().backward()
        return x.grad

    first, unplanned, _, _ = run(step, 5)
    assert unplanned > 0
    for _ in range(torch.lazuli.config.plan_after):
        again, _, _, whole = run(step, 5)
        assert torch.equal(first, again)
    assert whole == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int16])
def test_a_number_that_is_a_result(dtype):
    def step(device):
        x = torch.full((), 0.1 if dtype.is_floating_point else 7, dtype=dtype, device=device)
        return x, torch.arange(3, device=device).to(dtype) + x

    for actual, expected in zip(step(DEVICE), step("cpu"), strict=True):
        assert actual.dtype == dtype
        assert torch.equal(actual.cpu(), expected)


def test_an_index_out_of_range_is_the_plans_error_and_takes_nothing_else_along():
    x = torch.arange(12.0, device=DEVICE)
    other = x * 2 + 1
    wrong = (x + 1)[torch.tensor([3, 12], device=DEVICE)]
    after = wrong + 1
    with pytest.raises(IndexError, match="out of bounds for dimension with size 12"):
        torch.lazuli.synchronize()
    assert other.tolist() == (torch.arange(12.0) * 2 + 1).tolist()
    with pytest.raises(IndexError):
        after.tolist()


def test_division_by_zero():
    a, b = torch.tensor([4, 5], device=DEVICE), torch.tensor([2, 0], device=DEVICE)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        (torch.floor_divide(a, b) + 3).tolist()


@pytest.mark.parametrize("target", [[0, 5], [-1, 2]])
def test_a_class_that_is_not_there(target):
    x = torch.randn(2, 5, device=DEVICE, requires_grad=True)
    target = torch.tensor(target, device=DEVICE)
    nn.functional.cross_entropy(x, target).backward()
    with pytest.raises(IndexError, match="out of bounds"):
        x.grad.tolist()


calls = []


@torch.library.custom_op("lazuli_test::counted", mutates_args=(), device_types="cpu")
def counted_call(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    if x.dtype == torch.float64:
        raise ValueError("not in this type")
    return x * 2


@counted_call.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_external_call_that_fails_is_made_once():
    calls.clear()
    with pytest.raises(Exception, match="not in this type"):
        counted_call(torch.ones(3, dtype=torch.float64, device=DEVICE) + 1).tolist()
    assert len(calls) == 1


def test_an_external_call_is_made_once_though_another_op_fails():
    x = torch.ones(3, device=DEVICE)
    counted_call(x).tolist()  # what is unknown is called while it is recorded
    calls.clear()
    zero = torch.zeros(3, device=DEVICE, dtype=torch.int64)
    torch.lazuli.synchronize()
    doubled = counted_call(x)
    bad = torch.floor_divide(zero + 1, zero)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.lazuli.synchronize()
    assert doubled.tolist() == [2, 2, 2]
    assert len(calls) == 1
    with pytest.raises(RuntimeError):
        bad.tolist()


def test_results_share_no_memory():
    def step():
        x = torch.arange(6, device=DEVICE).to(torch.float32)
        a, b, c, d = (
            x + 1,
            torch.ones(3, device=DEVICE),
            torch.ones(3, device=DEVICE),
            torch.zeros((), device=DEVICE),
        )
        e = torch.zeros((), device=DEVICE)
        return [a, a[2:4].clone(), a.repeat(1), b, c, d, e, x.detach().clone()]

    torch.lazuli.reset_metrics()
    results = step()
    torch.lazuli.synchronize()
    assert counted("parts_unplanned") > (0,)
    before = [t.cpu() for t in results]
    # In place when it is planned.
    for turn in range(3):
        for i, t in enumerate(results):
            t.add_(100 + i)
            torch.lazuli.synchronize()
            for j, other in enumerate(results):
                added = (100 + j) * (turn + (j <= i))
                assert torch.equal(other.cpu(), before[j] + added), (turn, i, j)


def test_a_copy_of_what_was_there_may_be_written_by_torch():
    x = torch.arange(5.0, device=DEVICE)
    torch.lazuli.synchronize()
    copied = x.repeat(1)
    torch.lazuli.synchronize()
    nn.functional.logsigmoid(copied, out=copied)
    assert x.tolist() == [0, 1, 2, 3, 4]
    torch.testing.assert_close(copied.cpu(), nn.functional.logsigmoid(torch.arange(5.0)))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad])
def test_a_first_training_step(optimizer):
    def trained(device):
        torch.manual_seed(3)
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.Flatten(), nn.Linear(288, 5)
        ).to(device)
        x, target = torch.randn(4, 3, 8, 8).to(device), torch.tensor([0, 1, 4, 2]).to(device)
        steps = optimizer(model.parameters(), lr=0.01)
        losses = []
        for _ in range(3):
            loss = nn.functional.cross_entropy(model(x), target)
            steps.zero_grad()
            loss.backward()
            steps.step()
            losses.append(loss.item())
        return losses

    torch.lazuli.reset_metrics()
    losses = trained(DEVICE)
    assert counted("parts_unplanned")[0] > 0
    assert losses == pytest.approx(trained("cpu"), rel=2e-5)


def test_the_setting():
    def step(n):
        return torch.ones(n, device=DEVICE).cos().sum()

    with torch.lazuli.config.patch(unplanned="always"):
        for _ in range(6):
            _, unplanned, planned, whole = run(step, 77)
            assert unplanned > 0
            assert planned == whole == 0
    with torch.lazuli.config.patch(unplanned="never"):
        _, unplanned, planned, whole = run(step, 77)
    assert unplanned == 0
    assert planned + whole > 0
    with pytest.raises(ValueError, match="unplanned"):
        torch.lazuli.config.unplanned = "sometimes"


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize(
    "options",
    [{}, {"weight_decay": 0.1}, {"maximize": True}, {"betas": (0.3, 0.4)}, {"amsgrad": True}],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adams_steps(optimizer, options, dtype):
    def stepped(device):
        torch.manual_seed(1)
        parameters = [
            torch.randn(n, dtype=dtype).to(device).requires_grad_() for n in (1, 7, 40_000)
        ]
        kept = parameters[2].detach().clone()
        steps = optimizer(parameters, lr=0.01, **options)
        for k in range(5):
            for p in parameters:
                p.grad = torch.cos(p.detach() * 3 + k)
            steps.step()
            if device == DEVICE:
                torch.lazuli.synchronize()
        return [*(p.detach().cpu() for p in parameters), kept.cpu()]

    with torch.lazuli.config.patch(unplanned="always"):
        ours = stepped(DEVICE)
    for mine, eagers in zip(ours, stepped("cpu"), strict=True):
        torch.testing.assert_close(mine, eagers, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.randn(1000, device=DEVICE),
        lambda: torch.empty(999, device=DEVICE).exponential_(),
        lambda: torch.empty(998, device=DEVICE).log_normal_() * 3,
    ],
)
def test_the_same_seed_draws_the_same_numbers_at_once(draw):
    drawn = []
    for _ in range(3):
        torch.manual_seed(4)
        drawn.append(draw().cpu())
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])


def test_numbers_of_a_row_are_nothing_to_plan_for():
    """linspace computes in float64, from numbers alone."""
    x = torch.randn(5, 7)

    def step(x):
        return x * torch.linspace(1, 3, 7, device=x.device) + torch.arange(7, device=x.device) / 7

    result, unplanned, planned, whole = run(step, x.to(DEVICE))
    assert (unplanned, planned, whole) == (1, 0, 0)
    torch.testing.assert_close(result, step(x))


@pytest.mark.parametrize(
    "draw", [torch.randn, torch.rand, lambda *s, device: torch.randint(9, s, device=device)]
)
def test_noise_is_the_same_while_what_it_is_added_to_has_no_plan(draw):
    x = torch.randn(6, 5, device=DEVICE)

    def step():
        noise = draw(6, 5, device=DEVICE)
        return torch.stack([noise.float(), torch.tanh(x + noise * 0.5)])

    torch.manual_seed(3)
    first, unplanned, planned, whole = run(step)
    assert (unplanned, planned, whole) == (1, 0, 0)
    for _ in range(torch.lazuli.config.plan_after + 1):
        torch.manual_seed(3)
        again, *_ = run(step)
        assert torch.equal(again[0], first[0])
        torch.testing.assert_close(again, first)
    assert torch.lazuli.metrics()["traces_reused"] == 1  # by the plan of it all


def test_float64_is_planned_at_once():
    x = torch.randn(30, 40, dtype=torch.float64, device=DEVICE)

    def step():
        return torch.log_softmax(torch.tanh(x) * 1.5, -1).exp()

    first, unplanned, planned, whole = run(step)
    assert unplanned == 0
    assert planned + whole > 0
    again, _, _, _ = run(step)
    assert torch.equal(first, again)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_running_statistics_that_the_type_of_the_data_does_not_hold(kind):
    """A variance of more than 65,504 is within a float16's range times the momentum."""
    x = (torch.arange(24) * 61 % 24 - 12).to(DEVICE).reshape(4, 2, 3).to(kind) * 60

    def step(x):
        running = (
            torch.zeros(2, dtype=kind, device=x.device),
            torch.ones(2, dtype=kind, device=x.device),
        )
        torch.nn.functional.batch_norm(x, *running, training=True, momentum=0.05)
        return torch.stack(running)

    first, unplanned, _, _ = run(step, x)
    assert unplanned
    assert first.isfinite().all()
    expected = step(x.cpu())
    torch.testing.assert_close(first, expected, atol=0, rtol=2e-2)
    assert expected[1].max() > 65504 * 0.05

    without_end, _, _, _ = run(step, torch.full_like(x, -torch.inf))
    assert without_end[0].isneginf().all()
    assert without_end[1].isnan().all()


@pytest.mark.parametrize("training", [True, False])
def test_a_norm_of_strided_memory_is_as_exact_as_eagers(training):
    """Torch's kernels for dense operands multiply weights and statistics out first."""

    def step(x):
        numbers = (torch.tensor([n], device=x.device) for n in (1.0, 1.0, 0.66, -1.77))
        return torch.nn.functional.batch_norm(x, *numbers, training=training)

    x = torch.ones(3, 2)
    first, unplanned, _, _ = run(lambda x: step(x[:, :1]), x.to(DEVICE))
    assert unplanned
    expected = step(x[:, :1])
    assert (expected == -1.77).all()
    assert torch.equal(first, expected)


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_deterministic_algorithms_give_the_same_bits_each_time(deterministic):
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    model = nn.Sequential(layer, nn.Linear(32, 5)).to(DEVICE)
    x = torch.randn(3, 7, 32).to(DEVICE)

    def step():
        model.zero_grad()
        loss = model(x).softmax(-1).square().sum()
        loss.backward()
        return torch.cat([loss.reshape(1), *(p.grad.flatten() for p in model.parameters())])

    turns = [run(step) for _ in range(6)]
    assert all(unplanned == planned == 0 for _, unplanned, planned, _ in turns)
    assert [whole > 0 for *_, whole in turns] == [True] + [False] * 5
    assert all(torch.equal(turns[0][0], result) for result, *_ in turns)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("keep", ["nothing", "addend", "product", "both", "factors"])
def test_products_are_added_up_where_nobody_else_looks(keep, transposed):
    """In the addend's own memory, if it may be written over."""

    def step(device):
        torch.manual_seed(0)
        total = torch.randn(9, 11).to(device)
        if device == DEVICE:
            torch.lazuli.synchronize()
        kept = []
        for _ in range(4):
            a, b = torch.randn(9, 7).to(device), torch.randn(7, 11).to(device)
            whole = b.t() @ a.t() if transposed else a @ b
            product = whole.t() if transposed else whole
            if keep in ("addend", "both"):
                kept.append(total)
            if keep in ("product", "both"):
                kept.append(whole.t() if transposed else product)
            total = product + total if len(kept) % 2 else total + product
            if keep == "factors":
                total = total * (whole.t() if transposed else whole)
            total = total.tanh() + 0.5 if keep == "nothing" else total
        return torch.stack([total, *kept]).cpu()

    with torch.lazuli.config.patch(unplanned="always"):  # parts may have come before
        got, unplanned, planned, whole = run(step, DEVICE)
    assert unplanned > 0
    assert planned == whole == 0
    torch.testing.assert_close(got, step("cpu"))


def test_gradients_of_a_shared_weight_add_up():
    def step(device):
        torch.manual_seed(0)
        model = nn.GRU(6, 10).to(device)
        model(torch.randn(7, 3, 6).to(device))[0].square().sum().backward()
        return [p.grad.cpu() for p in model.parameters()]

    for got, want in zip(step(DEVICE), step("cpu"), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def momentum(x, m, g):
    m.mul_(0.9).add_(g, alpha=0.1)
    x.add_(m, alpha=-0.01)
    return x, m


def lion(x, m, g):
    x.add_((m * 0.9 + g * 0.1).sign(), alpha=-0.01)
    m.lerp_(g, 0.01)
    return x, m


@pytest.mark.parametrize(("update", "most"), [(momentum, 1), (lion, 0)])
def test_updates_are_written_where_they_belong(update, most):
    """The first time, too: a step takes no second copy of what it changes."""
    given = [torch.randn(1 << 18) for _ in range(3)]
    eager = [t.clone() for t in given]
    ours = [t.to(DEVICE) for t in given]
    for _ in range(2):
        torch.lazuli.synchronize()
        torch.lazuli.reset_peak_memory_stats()
        torch.lazuli.reset_metrics()
        before = torch.lazuli.memory_allocated()
        update(*ours)
        torch.lazuli.synchronize()
        taken = torch.lazuli.max_memory_allocated() - before
        assert counted("parts_unplanned") == (1,)
        assert taken <= most * given[0].nbytes
        update(*eager)
        for a, b in zip(ours, eager, strict=True):
            assert torch.equal(a.cpu(), b)


@pytest.mark.parametrize("keep", ["a copy", "the value", "an alias"])
def test_what_others_still_see_is_not_written_over(keep):
    def step(device):
        x, g = torch.arange(6.0).to(device), torch.ones(6).to(device)
        kept = {"a copy": x.detach().clone()[2:], "the value": x * 1, "an alias": x[2:]}[keep]
        x.mul_(3).add_(g)
        return x.cpu(), kept.cpu(), (x - kept.sum()).cpu()

    for ours, eagers in zip(step(DEVICE), step("cpu"), strict=True):
        assert torch.equal(ours, eagers)


@pytest.mark.parametrize("fails_first", [True, False])
def test_a_failure_beside_an_update_leaves_it_as_eager_does(fails_first):
    x, table = torch.ones(4, device=DEVICE), torch.ones(3, device=DEVICE)
    index = torch.tensor([7], device=DEVICE)
    torch.lazuli.synchronize()
    if fails_first:
        wrong = table[index]
        x.mul_(2)
    else:
        x.mul_(2)
        wrong = table[index]
    with pytest.raises(IndexError):
        wrong.cpu()
    assert x.tolist() == [2.0] * 4
    x.mul_(2)
    assert x.tolist() == [4.0] * 4
