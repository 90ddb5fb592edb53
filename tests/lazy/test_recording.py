"""Recording: nothing runs before somebody reads, nor what nobody reads or would miss."""

import torch


def test_nothing_runs_before_a_read(planned, counters, device):
    x = torch.ones(8, 8).to(device)
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    y = (x @ x).relu().sum(0)
    z = torch.sort(y).values.softmax(0)
    metrics = counters()
    assert metrics["syncs"] == {}
    assert metrics["ops_recorded"] >= 4
    assert abs(z.sum().item() - 1) < 1e-6
    assert sum(counters()["syncs"].values()) == 1


def test_shapes_and_strides_are_known_without_a_sync(counters, device):
    x = torch.ones(8, 8).to(device)
    y = torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3])
    assert y.shape == (1, 1, 6, 6)
    assert (x.t() @ x).stride() == (8, 1)
    assert x.expand(2, 8, 8).is_contiguous() is False
    assert torch.equal(torch.tensor(y.numel()), torch.tensor(36))
    assert (
        sum(count for reason, count in counters()["syncs"].items() if reason != "copy to host") == 0
    )


def test_one_sync_serves_many_tensors(counters, device):
    x = torch.ones(4).to(device)
    results = [x * i for i in range(10)]
    assert results[3].sum().item() == 12
    first = counters()["traces_compiled"] + counters()["traces_reused"]
    assert results[7].sum().item() == 28
    second = counters()["traces_compiled"] + counters()["traces_reused"]
    assert second - first <= 1  # only the sum of the second is new


def test_dead_values_are_not_computed(device):
    x = torch.ones(1 << 20).to(device)
    torch.lazuli.synchronize()
    torch.lazuli.reset_peak_memory_stats()
    before = torch.lazuli.memory_allocated()
    x.cumsum(0).exp()
    assert (x[:4] + 1).tolist() == [2, 2, 2, 2]
    assert torch.lazuli.max_memory_allocated() - before < x.nbytes


def test_the_bound_on_pending_ops_ends_a_trace(counters, device):
    with torch.lazuli.config.patch(max_pending_ops=100):
        x = torch.zeros(4).to(device)
        for _ in range(1000):
            x = x + 1
        assert sum(counters()["syncs"].values()) >= 5
    assert x.tolist() == [1000] * 4


def test_the_bound_on_pending_bytes_ends_a_trace(counters, device):
    with torch.lazuli.config.patch(max_pending_bytes=1 << 20):
        kept = [torch.ones(1 << 16, device=device) * i for i in range(20)]
        assert sum(counters()["syncs"].values()) >= 2
    assert kept[-1][0].item() == 19


def test_a_pending_value_survives_its_inputs(device):
    x = torch.ones(4).to(device)
    y = x + 1
    x.fill_(100)
    del x
    assert y.tolist() == [2, 2, 2, 2]


def test_a_very_long_chain(device):
    x = torch.zeros(2, device=device)
    for _ in range(30_000):
        x = x + 1
    assert x.tolist() == [30_000, 30_000]


def test_backward_runs_in_one_trace(counters, device):
    w = torch.ones(4, 4).to(device).requires_grad_()
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    (w @ w).sin().sum().backward()
    assert counters()["syncs"] == {}
    assert w.grad.shape == (4, 4)
    w.grad.cpu()
    assert sum(counters()["syncs"].values()) == 1
