"""Loops that nothing else ends are cut where they repeat; networks of equal layers are not."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

STEPS = 2000


def small_net():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def batch(device):
    return torch.randn(16, 8).to(device), torch.randint(0, 4, (16,)).to(device)


def descend(parameters):
    with torch.no_grad():
        for p in parameters:
            p -= 0.05 * p.grad
            p.grad = None


def elementwise(device):
    x, ones = torch.zeros(64, device=device), torch.ones(64, device=device)

    def step():
        nonlocal x
        x = (x + ones) * 0.5
        return x

    return step


def training(device):
    net, (x, y) = small_net().to(device), batch(device)

    def step():
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        descend(net.parameters())
        return loss

    return step


def training_on_new_batches(device):
    net = small_net().to(device)

    def step():
        x, y = batch(device)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        descend(net.parameters())
        return loss

    return step


def regression_by_hand(device):
    w, b = torch.zeros(8, 1, device=device), torch.zeros(1, device=device)

    def step():
        x, _ = batch(device)
        error = x @ w + b - x.sum(1, keepdim=True)
        w.sub_(x.t() @ error * 0.01)
        b.sub_(error.sum(0) * 0.01)
        return error.square().mean()

    return step


def power_iteration(device):
    a, v = torch.randn(8, 8).to(device), torch.ones(8, device=device)

    def step():
        nonlocal v
        v = a @ v
        v = v / v.norm()
        return v

    return step


def deep_inference(device):
    """The loop's body is itself a repetition of equal layers."""
    net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(24)]).to(device)
    x = torch.ones(4, 8, device=device)

    @torch.no_grad()
    def step():
        nonlocal x
        x = net(x) + x
        return x

    return step


def predictions_that_are_kept(device):
    """Nothing is carried from batch to batch."""
    net, kept = small_net().to(device), []

    @torch.no_grad()
    def step():
        kept.append(net(batch(device)[0]).argmax(1).float())
        return kept[-1]

    return step


LOOPS = [
    elementwise,
    training,
    training_on_new_batches,
    regression_by_hand,
    power_iteration,
    deep_inference,
    predictions_that_are_kept,
]


@pytest.mark.usefixtures("planned_at_once")
@pytest.mark.parametrize("make", LOOPS, ids=lambda f: f.__name__)
def test_a_loop_reaches_a_steady_state(make, counters, device):
    step = make(device)
    compiled, live = [], []
    for n in range(1, STEPS + 1):
        step()
        if n in (STEPS // 2, STEPS * 3 // 4, STEPS):
            metrics = counters()
            compiled.append(metrics["traces_compiled"])
            live.append(metrics["bytes_live"])
    assert set(metrics["syncs"]) <= {"repetition", "copy to host"}
    assert compiled[0] <= 3  # none, if another test had the same loop
    assert compiled == [compiled[0]] * 3
    if make is not predictions_that_are_kept:
        assert live[-1] <= live[0] * 1.05 + 4096


def test_a_loop_over_large_values(counters, device):
    """The bound on bytes comes long before the first look."""
    x, ones = torch.zeros(1 << 14, device=device), torch.ones(1 << 14, device=device)
    with torch.lazuli.config.patch(max_pending_bytes=1 << 21):
        for _ in range(500):
            x = ((x + ones) * ones).tanh() - ones
        assert counters()["traces_compiled"] <= 3
        assert counters()["syncs"]["repetition"] > 10
        assert set(counters()["syncs"]) == {"repetition"}


@pytest.mark.parametrize("make", LOOPS, ids=lambda f: f.__name__)
def test_a_loop_gives_what_cpu_gives(make, device):
    results = {}
    for where in ("cpu", device):
        torch.manual_seed(0)
        step = make(where)
        for _ in range(300):
            last = step()
        results[where] = last.detach().cpu()
    torch.testing.assert_close(results[device], results["cpu"], rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("planned_at_once")
def test_a_loop_that_reads_now_and_then_compiles_nothing_new(counters, device):
    step = training(device)
    compiled = []
    for n in range(1, 1001):
        loss = step()
        if n % 100 == 0:
            loss.item()
            compiled.append(counters()["traces_compiled"])
    assert compiled[2:] == [compiled[2]] * len(compiled[2:])


@pytest.mark.usefixtures("planned_at_once")
def test_accumulating_gradients_compiles_nothing_new(counters, device):
    """Long enough to be cut inside a step, which is then cut so every time."""
    net = small_net().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    compiled = []
    for _ in range(6):
        optimizer.zero_grad()
        for _ in range(60):
            x, y = batch(device)
            F.cross_entropy(net(x), y).backward()
        optimizer.step()
        compiled.append(counters()["traces_compiled"])
    assert counters()["syncs"]["repetition"] >= 6
    assert compiled[2:] == [compiled[2]] * 4


def layers(count=24):
    return [
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(count)
    ]


def forward(device):
    net = nn.Sequential(*layers()).to(device)
    with torch.no_grad():
        return net(torch.randn(2, 4, 16).to(device))


def forward_and_backward(device):
    net = nn.Sequential(*layers()).to(device)
    net(torch.randn(2, 4, 16).to(device)).sum().backward()
    return [p.grad for p in net.parameters()]


def narrow_layers(device):
    """One parameter to a layer, and one value that goes on."""
    weights = [torch.randn(8, 8).to(device) for _ in range(120)]
    x = torch.ones(4, 8, device=device)
    for w in weights:
        x = (x @ w).tanh()
        for _ in range(4):
            x = x.relu() + x.sigmoid()
    return x


def shared_layers_in_training(device):
    """Activations are kept for backward."""
    layer = layers(1)[0].to(device)
    x = torch.randn(2, 4, 16).to(device)
    for _ in range(24):
        x = layer(x)
    x.sum().backward()
    return x, [p.grad for p in layer.parameters()]


def independent_results(device):
    return [torch.full((8,), 2.0, device=device) * 3 + 1 for _ in range(1000)]


def results_that_nobody_keeps(device):
    base = torch.full((8,), 2.0, device=device)
    for _ in range(1000):
        base * 3 + 1


def optimizer_of_equal_parameters(device):
    parameters = [torch.ones(8).to(device).requires_grad_() for _ in range(100)]
    optimizer = torch.optim.AdamW(parameters)
    with torch.lazuli.config.patch(cut_at_step=False):
        sum((p * n).sum() for n, p in enumerate(parameters)).backward()
        optimizer.step()
    return optimizer


PROGRAMS = [
    forward,
    forward_and_backward,
    narrow_layers,
    shared_layers_in_training,
    independent_results,
    results_that_nobody_keeps,
    optimizer_of_equal_parameters,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_that_is_no_loop_is_not_cut(program, counters, device):
    results = program(device)
    assert set(counters()["syncs"]) <= {"copy to host"}
    assert counters()["ops_recorded"] > 300
    del results


def test_a_setting_turns_it_off(counters, device):
    with torch.lazuli.config.patch(cut_at_repeat=False):
        step = elementwise(device)
        for _ in range(STEPS):
            step()
        assert "repetition" not in counters()["syncs"]
