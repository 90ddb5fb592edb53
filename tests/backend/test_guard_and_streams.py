"""The device guard, streams and events, as torch's own code uses them."""

import threading

import pytest
import torch


def test_default_device():
    with torch.device("lazuli"):
        assert torch.ones(2).device.type == "lazuli"
        assert torch.nn.Linear(2, 2).weight.device.type == "lazuli"
        assert torch.tensor([1.0]).device.type == "lazuli"
        assert torch.ones(2, device="cpu").device.type == "cpu"
    assert torch.ones(2).device.type == "cpu"


def test_set_default_device():
    torch.set_default_device("lazuli")
    try:
        assert torch.zeros(1).device.type == "lazuli"
        assert torch.get_default_device().type == "lazuli"
    finally:
        torch.set_default_device(None)


def test_a_device_that_does_not_exist():
    with pytest.raises(RuntimeError):
        torch.zeros(1, device="lazuli:7")
    assert torch.zeros(1, device="lazuli:0").sum().item() == 0


def test_names_of_the_device():
    x = torch.zeros(1, device="lazuli")
    assert x.device == torch.device("lazuli:0") == torch.device("lazuli", 0)
    assert str(x.device) == "lazuli:0"
    assert x.is_lazuli
    assert x.get_device() == 0
    assert not x.is_cuda
    assert not x.is_cpu
    assert x.type() == "torch.lazuli.FloatTensor"


def test_generic_streams_and_events():
    stream = torch.Stream(device="lazuli")
    start, end = (torch.Event("lazuli", enable_timing=True) for _ in range(2))
    start.record(stream)
    x = torch.ones(4, device="lazuli") + 1
    end.record(stream)
    stream.wait_event(end)
    stream.wait_stream(torch.accelerator.current_stream())
    end.synchronize()
    stream.synchronize()
    assert end.query()
    assert stream.query()
    assert start.elapsed_time(end) >= 0
    assert x.sum().item() == 8


def test_streams_as_context():
    with torch.Stream(device="lazuli") as stream:
        assert torch.accelerator.current_stream() == stream
        x = torch.ones(2, device="lazuli")
    x.record_stream(stream)
    assert (x + 1).sum().item() == 4


def test_accelerator():
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert accelerator.current_accelerator().type == "lazuli"
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index(0)
    with accelerator.device_index(0):
        assert torch.zeros(1, device="lazuli").item() == 0
    accelerator.synchronize()


def test_tensors_from_many_threads():
    results = {}

    def work(i):
        x = torch.full((16,), float(i)).to("lazuli").requires_grad_()
        for _ in range(20):
            y = (x * 2 + 1).relu()
        y.sum().backward()
        results[i] = (y.sum().item(), x.grad.sum().item())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {i: (16 * (2.0 * i + 1), 32.0) for i in range(4)}


def test_a_pending_tensor_is_read_by_another_thread():
    x = torch.ones(4, device="lazuli") * 3
    seen = []
    thread = threading.Thread(target=lambda: seen.append(x.sum().item()))
    thread.start()
    thread.join()
    assert seen == [12]
