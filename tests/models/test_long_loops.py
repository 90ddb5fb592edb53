"""Loops that never read a value: a steady state, flat memory, no new trace."""

import psutil
import pytest
import torch

STEPS = 2000


def resident() -> int:
    return psutil.Process().memory_info().rss


class Loop:
    """A tiny model's training loop; remembers counters after the steps that matter."""

    def __init__(self, device, counters, schedule=None):
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
        ).to(device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2)
        self.x = torch.randn(16, 8).to(device)
        self.y = torch.randint(0, 4, (16,)).to(device)
        self.schedule = schedule
        self.counters = counters

    def step(self, n):
        if self.schedule:
            for group in self.optimizer.param_groups:
                group["lr"] = self.schedule(n)
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self):
        compiled, memory, live = [], [], []
        for n in range(STEPS):
            loss = self.step(n)
            if n == 9 or n % 500 == 499:  # a trace is planned when it has come some times
                metrics = self.counters()
                compiled.append((metrics["traces_compiled"], metrics["kernels_compiled"]))
                live.append(metrics["bytes_live"])
                memory.append(resident())
        self.last = loss.item()
        return compiled, memory, live


SCHEDULES = {
    "constant": None,
    "changing": lambda n: 1e-2 * (1 - n / STEPS) + 1e-4,
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_training(schedule, counters, device):
    loop = Loop(device, counters, SCHEDULES[schedule])
    compiled, memory, live = loop.run()
    assert compiled == [compiled[0]] * len(compiled)
    assert live[-1] <= live[1] * 1.05 + 4096
    assert memory[-1] - memory[1] < 8 << 20
    assert loop.last < 0.05


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_training_gives_what_cpu_gives(schedule, counters, device):
    """The first hundred losses, read only at the end."""
    losses = {}
    for where in ("cpu", device):
        loop = Loop(where, counters, SCHEDULES[schedule])
        losses[where] = torch.stack([loop.step(n).detach() for n in range(100)]).cpu()
    torch.testing.assert_close(losses[device], losses["cpu"], rtol=5e-3, atol=1e-4)


def test_a_loop_without_an_optimizer(counters, device):
    """No step ends the traces here: only the loop's own repetition can."""
    x = torch.zeros(64, device=device)
    ones = torch.ones(64, device=device)
    memory = []
    for n in range(80_000):
        x = (x + ones) * 1.0
        if n % 20_000 == 19_999:
            memory.append(resident())
    assert memory[-1] - memory[0] < 8 << 20
    assert counters()["traces_compiled"] <= 5
    assert x[0].item() == 80_000


def test_a_loop_that_writes_in_place(counters, device):
    x = torch.zeros(64, device=device)
    for n in range(5_000):
        x[n % 64].add_(1)
    assert counters()["traces_compiled"] <= 70
    assert x.sum().item() == 5_000


@pytest.mark.usefixtures("planned_at_once")
def test_inference_in_a_loop(counters, device):
    net = torch.nn.Linear(8, 8).to(device)
    x = torch.randn(4, 8).to(device)
    compiled = []
    with torch.no_grad():
        for n in range(500):
            x = net(x).tanh()
            x.cpu()
            if n in (3, 499):
                compiled.append(counters()["traces_compiled"])
    assert compiled[0] == compiled[1]
