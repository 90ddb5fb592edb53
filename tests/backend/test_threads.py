"""Several threads record, sync and run backward at once: results are eager's, nobody hangs."""

import os
import subprocess
import sys

import pytest
from versions import TORCH

PRELUDE = """
import faulthandler, threading, torch
faulthandler.dump_traceback_later(100, exit=True)
failures = []

def all_at_once(*works, times=1):
    barrier = threading.Barrier(len(works) * times)
    def run(i, work):
        try:
            barrier.wait()
            work(i)
        except BaseException as error:
            failures.append(repr(error))
    threads = [
        threading.Thread(target=run, args=(n * len(works) + i, work))
        for n in range(times)
        for i, work in enumerate(works)
    ]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not failures, failures
"""


def run(script: str, **environment: str) -> str:
    """A process of its own: one that hangs says where each thread stands, and is a failure."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        env={**os.environ, "OMP_NUM_THREADS": "2", **environment},
        capture_output=True,
        text=True,
        timeout=150,
    )
    if TORCH == (2, 12) and done.stderr == "terminate called without an active exception\n":
        pytest.xfail("torch 2.12 ends so, and more often without Lazuli, on cpu: 33 times of 40")
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_each_thread_trains_a_model_of_its_own():
    run("""
def train(device, seed, steps=12):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(shape, generator=g).to(device)
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(5, 8 + seed), torch.nn.Tanh(), linear(8 + seed, 3))
    with torch.no_grad():
        for p in model.parameters(): p.copy_(torch.randn(p.shape, generator=g) * 0.3)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(draw(7, 5)), draw(7, 3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)

found = {}
def work(i): found[i] = train("lazuli", i)
all_at_once(work, times=4)
for i in range(4): torch.testing.assert_close(found[i], train("cpu", i), rtol=1e-4, atol=1e-5)
""")


@pytest.mark.parametrize("device", ["cpu", "lazuli"])
def test_backwards_that_begin_at_the_same_time(device):
    """On the way to its hook torch's engine refuses a second thread, be it the host's alone."""
    run(f"""
x = torch.randn(4).to("{device}").requires_grad_()
def work(i):
    w = x.detach().clone().requires_grad_()
    for n in range(6000):
        w.sum().backward()
        if n % 4 == 0: torch.autograd.grad((w * w).sum(), w, create_graph=True)
    assert w.grad.tolist() == [6000.0] * 4
all_at_once(work, times=8)
""")


def test_one_thread_asks_for_nodes_while_another_differentiates():
    run("""
for n in range(200):
    x = torch.randn(32, 8).to("lazuli").requires_grad_()
    rows = [x[i] for i in range(32)]
    loss = sum(row.sin().sum() for row in rows)
    asking = threading.Thread(target=lambda: [row.grad_fn for row in rows])
    asking.start()
    loss.backward()
    asking.join()
    torch.testing.assert_close(x.grad.cpu(), x.detach().cpu().cos())
""")


def test_threads_share_tensors():
    run("""
a = torch.randn(50, 50).to("lazuli")
w = torch.randn(50, 50).to("lazuli").requires_grad_()
expected = (a.cpu() @ w.detach().cpu()).tanh()
def read(i):
    for n in range(40):
        torch.testing.assert_close((a @ w.detach()).tanh().cpu(), expected, rtol=1e-4, atol=1e-5)
def differentiate(i):
    for n in range(40): (a @ w).tanh().sum().backward()
def call(i):
    for n in range(40): torch.cdist(a, a + n).sum().item()
def look(i):
    for n in range(400):
        y = a * 2
        y.data_ptr(), y.tolist() if n % 40 == 0 else None, torch.lazuli.metrics()
all_at_once(read, differentiate, call, look)
x = w.detach().cpu().requires_grad_()
(a.cpu() @ x).tanh().sum().backward()
torch.testing.assert_close(w.grad.cpu(), 40 * x.grad, rtol=1e-3, atol=1e-3)
""")


def test_one_thread_waits_while_others_hold_the_interpreter():
    """A sync looks for the Python line, and a data pointer is asked for under Python's lock."""
    run("""
def sync(i):
    for n in range(1500): (torch.ones(3, device="lazuli") + n).sum().item()
def point(i):
    for n in range(1500): (torch.ones(3, device="lazuli") + n).data_ptr()
all_at_once(sync, point, times=2)
""")


def test_backward_under_graphs_that_threads_share():
    run("""
x = torch.randn(20).to("lazuli").requires_grad_()
def work(i):
    for n in range(60):
        y = (x * (i + 1)).sin()
        if n % 3 == 0: y.grad_fn
        if n % 3 == 1: y.register_hook(lambda g: g * 1)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=n % 2 == 0)
        expected = (i + 1) * (x.detach().cpu() * (i + 1)).cos()
        torch.testing.assert_close(g.detach().cpu(), expected, rtol=1e-4, atol=1e-5)
all_at_once(work, times=4)
""")


def test_an_error_in_one_thread():
    """Threads record into one trace, so another's read may meet the error; all go on after it."""
    run("""
met = []
def fail(i):
    for n in range(50):
        try:
            torch.randn(3).to("lazuli")[torch.tensor([7], device="lazuli")].cpu()
        except (IndexError, RuntimeError) as error:
            met.append(str(error))
        else:
            raise AssertionError("no error")
def work(i):
    for n in range(50):
        try:
            assert (torch.ones(5, device="lazuli") * n).sum().item() == 5 * n
        except (IndexError, RuntimeError) as error:
            met.append(str(error))
all_at_once(fail, work, work)
assert len(met) >= 50
assert all("out of" in text for text in met), met
assert (torch.ones(5, device="lazuli") * 3).sum().item() == 15
""")


def test_random_numbers_of_threads_are_distinct():
    run("""
drawn = []
def work(i):
    for n in range(20): drawn.append(torch.rand(64, device="lazuli").cpu())
all_at_once(work, times=4)
assert torch.stack(drawn).unique().numel() > 80 * 64 - 20
""")


@pytest.mark.parametrize(
    "setting", ["LAZULI_FUSION", "LAZULI_INLINE_BACKWARD", "LAZULI_LIGHT_AUTOGRAD"]
)
def test_under_other_settings(setting):
    run(
        """
w = torch.randn(9, 9).to("lazuli").requires_grad_()
def work(i):
    for n in range(15): ((w * w).exp() @ w).mean().backward()
all_at_once(work, times=3)
x = w.detach().cpu().requires_grad_()
((x * x).exp() @ x).mean().backward()
torch.testing.assert_close(w.grad.cpu(), 45 * x.grad, rtol=1e-3, atol=1e-3)
""",
        **{setting: "0"},
    )


def test_threads_that_end_leave_no_memory():
    run("""
from pathlib import Path

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def work():
    x = torch.randn(8, device="lazuli", requires_grad=True)
    y = x
    for _ in range(150): y = y * 1.01 + 0.1
    y.sum().backward()
    x.grad.sum().item()

def start(count):
    for _ in range(count):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

start(60)
before = resident()
start(300)
grown = (resident() - before) / 2**20
assert grown < 20, f"{grown} MiB"
""")


def test_each_thread_multiplies_float64_matrices():
    run("""
def multiply(i, times=20):
    g = torch.Generator().manual_seed(i)
    draw = lambda *shape: torch.randn(shape, generator=g, dtype=torch.float64)
    for _ in range(times):
        for a, b in [((150, 90), (90, 120)), ((40, 9, 16), (40, 16, 12)), ((3, 70, 80), (80, 60))]:
            a, b = draw(*a), draw(*b)
            y = a.to("lazuli") @ b.to("lazuli")
            torch.testing.assert_close(y.cpu(), a @ b, rtol=1e-12, atol=1e-12)

multiply(0)
all_at_once(multiply, times=4)
torch.set_num_threads(1)
all_at_once(multiply, times=4)
torch.set_num_threads(2)
multiply(0)
""")
