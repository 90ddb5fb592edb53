"""torch.lazuli: what torch itself and a user call."""

import pytest
import torch


def test_devices(device):
    assert torch.lazuli.is_available()
    torch.lazuli.synchronize()  # a use
    assert torch.lazuli.is_initialized()
    assert torch.lazuli.device_count() >= 1
    assert torch.lazuli.current_device() == 0
    torch.lazuli.set_device("lazuli:0")
    with torch.lazuli.device(0), torch.lazuli.device("lazuli"), torch.lazuli.device(-1):
        assert torch.empty(1, device="lazuli").device == torch.device("lazuli", 0)
    with torch.lazuli.device_of(torch.empty(1)):
        pass


def test_a_device_of_another_type_is_an_error(device):
    with pytest.raises(ValueError, match="Expected a lazuli device, but got: cpu"):
        torch.lazuli.device("cpu")


def test_methods_on_tensors_modules_and_storages(device):
    assert torch.ones(2).lazuli().is_lazuli
    assert torch.nn.Linear(2, 2).lazuli().weight.is_lazuli
    assert torch.ones(2).untyped_storage().lazuli().device.type == device


def test_accelerator(device):
    assert torch.accelerator.current_accelerator().type == device
    assert torch.accelerator.device_count() == torch.lazuli.device_count()
    torch.accelerator.synchronize()


def test_streams_and_events(device):
    stream = torch.lazuli.Stream()
    before = torch.lazuli.current_stream()
    with torch.lazuli.stream(stream):
        event = torch.lazuli.Event()
        event.record()
    event.synchronize()
    assert stream.device.type == device
    assert torch.lazuli.current_stream() == before
    with torch.lazuli.stream(None):
        pass


def test_the_random_state_can_be_kept(device):
    state = torch.lazuli.get_rng_state()
    assert state.device.type == "cpu"
    assert state.dtype == torch.uint8
    first = torch.rand(5, device=device).cpu()
    torch.lazuli.set_rng_state(state)
    assert torch.equal(torch.rand(5, device=device).cpu(), first)
    torch.lazuli.set_rng_state_all([state])
    assert torch.equal(torch.rand(5, device=device).cpu(), first)


@pytest.mark.parametrize("seed", [0, 7, -1, 2**63, 2**64 - 1])
def test_seeds(device, seed):
    torch.manual_seed(seed)
    first = torch.rand(5, device=device).cpu()
    assert torch.lazuli.initial_seed() == torch.initial_seed()
    torch.lazuli.manual_seed_all(seed)
    assert torch.equal(torch.rand(5, device=device).cpu(), first)
    torch.lazuli.seed()
    assert not torch.equal(torch.rand(5, device=device).cpu(), first)


def test_fork_rng(device):
    with torch.random.fork_rng(device_type=device):
        first = torch.rand(5, device=device).cpu()
    assert torch.equal(torch.rand(5, device=device).cpu(), first)


def test_memory(device):
    torch.lazuli.reset_peak_memory_stats()
    before = torch.lazuli.memory_allocated()
    x = torch.ones(1000, 1000).to(device) + 1
    torch.lazuli.synchronize()
    assert torch.lazuli.memory_allocated() >= before + 4_000_000
    assert torch.lazuli.max_memory_allocated() >= before + 4_000_000
    del x
    torch.lazuli.empty_cache()
    free, total = torch.lazuli.mem_get_info()
    assert 0 < free <= total


def test_amp_types(device):
    assert torch.bfloat16 in torch.lazuli.get_amp_supported_dtype()
    assert torch.lazuli.is_bf16_supported()
