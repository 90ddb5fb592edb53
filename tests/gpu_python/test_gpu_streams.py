"""Work of both devices in several streams of CUDA, and events between them."""

import pytest
import torch
from torch_lazuli.operators import ops

STEPS = 24
ENDS = {
    "step": lambda: ops._step_end(),
    "wait": lambda: torch.lazuli.synchronize(),
    "none": lambda: None,
}


def chain(device, streams, end):
    """Each step in the next stream, from what the one before gives; ends of steps do not wait."""
    torch.manual_seed(0)
    w = (torch.randn(1024, 1024) / 32).to(device)
    x = torch.randn(1024, 1024).to(device)
    end()
    torch.cuda.synchronize()
    for n in range(STEPS):
        stream = streams[n % len(streams)]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(4):
                x = (x @ w).tanh()
            x = x * 1.01 + n
            end()
        torch.cuda.current_stream().wait_stream(stream)
        x = x - n
    return x.sum(1).cpu()


def streams(count):
    return [torch.cuda.Stream() for _ in range(count)]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("end", ENDS)
def test_a_chain_through_streams(count, end):
    expected = chain("cuda", streams(count), lambda: None)
    actual = chain("lazuli", streams(count), ENDS[end])
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-2)


def test_training_with_batches_from_another_stream():
    losses = {}
    for device in ("cuda", "lazuli"):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)
        )
        net = net.to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        batches = [torch.randn(512, 64).pin_memory() for _ in range(8)]
        copying = torch.cuda.Stream()
        losses[device] = []
        for batch in batches * 2:
            copying.wait_stream(
                torch.cuda.current_stream()
            )  # which may read the last batch's memory
            with torch.cuda.stream(copying):
                x = batch.to(device, non_blocking=True)
            torch.cuda.current_stream().wait_stream(copying)
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.detach())
        losses[device] = torch.stack(losses[device]).cpu()
    torch.testing.assert_close(losses["lazuli"], losses["cuda"], rtol=1e-3, atol=1e-4)


def test_memory_of_a_stream_is_not_given_again_too_early():
    side = torch.cuda.Stream()
    torch.manual_seed(0)
    x = torch.randn(4 << 20)
    results = []
    for n in range(20):
        with torch.cuda.stream(side):
            y = x.to("lazuli")
            for _ in range(5):
                y = (y * 1.001).sin() + n
            ops._step_end()
        results.append((y + 1).sum(dtype=torch.float64))
        del y
        torch.empty(4 << 20, device="cuda").fill_(float("nan"))  # takes memory that is free
    for n, result in enumerate(results):
        want = x.cuda()
        for _ in range(5):
            want = (want * 1.001).sin() + n
        want = (want + 1).sum(dtype=torch.float64)
        torch.testing.assert_close(result.cpu(), want.cpu(), rtol=1e-5, atol=1.0)


def test_events_of_lazuli():
    start, end = (torch.Event("lazuli", enable_timing=True) for _ in range(2))
    x = torch.randn(2048, 2048).to("lazuli")
    torch.lazuli.synchronize()
    start.record()
    for _ in range(10):
        x = (x @ x).tanh()
    end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) > 0.05  # 170 GFLOP
    assert x.isfinite().all()


def test_events_of_cuda_cover_what_was_synchronized():
    side, event = torch.cuda.Stream(), torch.cuda.Event()
    x = torch.randn(1024, 1024)
    ours = x.to("lazuli")
    for _ in range(10):
        ours = (ours @ ours * 0.02).tanh()
    theirs = ours.to("cuda")
    event.record()
    with torch.cuda.stream(side):
        side.wait_event(event)
        total = theirs.sum()
    side.synchronize()
    want = x.cuda()
    for _ in range(10):
        want = (want @ want * 0.02).tanh()
    torch.testing.assert_close(total, want.sum(), rtol=1e-2, atol=5.0)


def test_streams_of_lazuli():
    stream = torch.Stream(device="lazuli")
    x = torch.ones(1 << 20, device="lazuli")
    with stream:
        y = x * 2
    stream.synchronize()
    y.record_stream(stream)
    torch.Stream(device="lazuli").wait_stream(stream)
    assert (y + 1).sum().item() == 3 << 20


def test_threads_with_streams_of_their_own():
    import threading

    results = {}

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.full((1 << 16,), float(i)).to("lazuli").requires_grad_()
            for _ in range(10):
                y = (x * 2 + 1).relu()
                ops._step_end()
            y.sum().backward()
            results[i] = (y.sum().item(), x.grad.sum().item())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    n = 1 << 16
    assert results == {i: (n * (2.0 * i + 1), n * 2.0) for i in range(4)}
