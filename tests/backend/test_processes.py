"""Forking, spawning and exiting after use: a child works or says why not, and nobody hangs."""

import os
import subprocess
import sys

import pytest

PRELUDE = """
import faulthandler, os, sys, threading, torch
faulthandler.dump_traceback_later(100, exit=True)

def used():
    w = torch.randn(300, 300).to("lazuli").requires_grad_()
    (w @ w).relu().sum().backward()
    return w

def in_child(work):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(script: str, threads: int = 2):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


threads = pytest.mark.parametrize("threads", [1, 2])


@threads
def test_a_child_computes_after_fork(threads):
    """New values, values that the parent computed, and values that the parent had recorded only."""
    run(
        """
w = used().detach()
torch.ones(1 << 20).add(1)  # torch's own threads too
pending = (w * 2).sum()
expected = (w.cpu() * 2).sum()
def work():
    torch.testing.assert_close(pending.cpu(), expected, rtol=1e-4, atol=1e-2)
    torch.testing.assert_close((w @ w).cpu(), w.cpu() @ w.cpu(), rtol=1e-3, atol=1e-3)
    big = torch.arange(1 << 20, device="lazuli")
    assert (big * 3).sum().item() == 3 * sum(range(1 << 20))
    assert torch.cdist(w, w).shape == (300, 300)
assert in_child(work) == 0
assert in_child(lambda: in_child(work) == 0 or 1 / 0) == 0
torch.testing.assert_close(pending.cpu(), expected, rtol=1e-4, atol=1e-2)
""",
        threads,
    )


@threads
def test_a_child_begins_with_a_copy_from_the_host(threads):
    """Torch copies a large tensor by several threads, which the child has not."""
    run(
        """
w = used().detach()
large = torch.arange(1 << 20, dtype=torch.float64)
assert torch.equal(large * 2 + 1, large + large + 1)  # torch's own threads
def work():
    assert torch.equal(large.to("lazuli").cpu(), large.clone())
assert in_child(work) == 0
""",
        threads,
    )


@threads
def test_backward_in_a_child(threads):
    """Torch's engine, whose threads did not come along, refuses after a backward of the parent."""
    run(
        """
def work():
    w = torch.randn(30, 30).to("lazuli").requires_grad_()
    (w * w).sum().backward()
    torch.testing.assert_close(w.grad.cpu(), 2 * w.detach().cpu())
w = torch.randn(30, 30).to("lazuli")
(w @ w).sum().item()
assert in_child(work) == 0
used()
def refused():
    try:
        work()
    except RuntimeError as error:
        assert "fork" in str(error), error
assert in_child(refused) == 0
""",
        threads,
    )


def test_fork_while_other_threads_work():
    """All have begun: libc holds a lock while somebody's first call makes a static object."""
    run("""
stop, begun = threading.Event(), threading.Barrier(4)
def work():
    turn()
    begun.wait()
    while not stop.is_set(): turn()
def turn():
    x = torch.randn(20, 20).to("lazuli").requires_grad_()
    ((x @ x).exp() + torch.cdist(x, x)).sum().backward()
    x.grad.cpu()
others = [threading.Thread(target=work) for _ in range(3)]
for t in others: t.start()
def child():
    x = torch.ones(9, 9, device="lazuli")
    assert (x @ x).sum().item() == 729
def refused():
    try:
        torch.ones(3, device="lazuli", requires_grad=True).sum().backward()
    except RuntimeError as error:
        assert "fork" in str(error), error
child()
begun.wait()
try:
    for n in range(25): assert in_child(child) == 0
    for n in range(10): assert in_child(refused) == 0
finally:
    stop.set()
    for t in others: t.join()
""")


LOADER = """
class Data(torch.utils.data.Dataset):
    def __init__(self, kept): self.kept = kept
    def __len__(self): return 8
    def __getitem__(self, i): return self.kept[i] * 2
def total(data, **options):
    loader = torch.utils.data.DataLoader(data, batch_size=4, **options)
    return sum(batch.to("lazuli").sum().item() for batch in loader)
"""


@pytest.mark.parametrize("where", ["cpu", "lazuli"])
def test_a_loader_with_workers_after_use(where):
    """Workers of a data set on the device compute there, and send what they made."""
    run(
        LOADER
        + f"""
if __name__ == "__main__":
    used()
    data = Data(torch.arange(24.0).view(8, 3).to("{where}"))
    for workers in (0, 2):
        for _ in range(2): assert total(data, num_workers=workers) == 2 * sum(range(24))
"""
    )


def test_spawn(tmp_path):
    script = tmp_path / "spawned.py"
    script.write_text("""
import torch
import torch.multiprocessing as mp

def work(rank, queue, x):
    queue.put((rank, (torch.ones(4, device="lazuli") * rank + x.to("lazuli")).sum().item()))

if __name__ == "__main__":
    torch.ones(3, device="lazuli").add(1).sum().item()
    context = mp.get_context("spawn")
    queue = context.Queue()
    processes = mp.spawn(work, (queue, torch.ones(4)), nprocs=2, join=False)
    assert sorted(queue.get(timeout=100) for _ in range(2)) == [(0, 4.0), (1, 8.0)]
    while not processes.join(timeout=100):
        pass
""")
    subprocess.run([sys.executable, script], check=True, timeout=150)


ENDS = {
    "pending work": "x = torch.ones(5, device='lazuli') + 1",
    "a pending backward": "x = used(); (x * 2).sum().backward()",
    "a cycle": "x = [torch.ones(5, device='lazuli').requires_grad_() * 2]; x.append(x)",
    "a module's global": "torch.kept = torch.ones(5, device='lazuli').sin()",
    "an error that nobody reads": "x = torch.randn(3).to('lazuli')[torch.tensor([9]).to('lazuli')]",
    "an exit handler": """
import atexit
atexit.register(lambda: print(torch.ones(3, device='lazuli').sum().item()))
""",
    "an exit after a thread": "t = threading.Thread(target=used); t.start(); t.join(); sys.exit(0)",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends_with(end):
    done = run(ENDS[end])
    assert "Traceback" not in done.stderr
    assert ("3.0" in done.stdout) == (end == "an exit handler")


SENT = """
import warnings, torch, torch.multiprocessing as mp

def child(rank, tensors, queue, may_end):
    assert all(t.device.type == "lazuli" for t in tensors)
    queue.put([t.detach() * 2 for t in tensors])
    may_end.wait(60)

def with_parameters(rank, model, expected):
    assert all(p.requires_grad and p.device.type == "lazuli" for p in model.parameters())
    assert torch.equal(model.weight.cpu(), expected)

def main():
    x = torch.arange(6.0, device="lazuli").reshape(2, 3)
    half = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16, device="lazuli"))
    for method in ("spawn", "forkserver", "fork"):
        context = mp.get_context(method)
        queue, may_end = context.Queue(), context.Event()
        given = (x, x.t(), half)
        process = context.Process(target=child, args=(0, given, queue, may_end))
        process.start()
        for got, t in zip(queue.get(timeout=90), given):
            assert torch.equal(got.cpu(), t.detach().cpu() * 2), method
        may_end.set()
        process.join()
        assert process.exitcode == 0, method
    model = torch.nn.Linear(3, 2).to("lazuli")
    mp.spawn(with_parameters, (model, model.weight.detach().cpu()), nprocs=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.share_memory()
    assert any("keep a tensor that several processes write" in str(w.message) for w in said)

if __name__ == "__main__":
    main()
"""


def test_tensors_are_arguments_of_processes(tmp_path):
    """A script, since a process that is spawned imports the module of its function."""
    script = tmp_path / "script.py"
    script.write_text(SENT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-4000:]
