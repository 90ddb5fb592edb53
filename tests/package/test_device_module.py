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
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_memory_through_the_accelerator(device):
    torch.accelerator.reset_peak_memory_stats()
    before = torch.accelerator.memory_allocated()
    x = torch.ones(1000, 1000).to(device) + 1
    torch.accelerator.synchronize()
    for held in (torch.accelerator.memory_allocated(), torch.accelerator.max_memory_allocated()):
        assert held >= before + 4_000_000
    assert torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
    assert torch.accelerator.max_memory_reserved() >= torch.accelerator.max_memory_allocated()
    counters = torch.accelerator.memory_stats()
    assert counters["allocated_bytes.all.current"] == torch.lazuli.memory_allocated()
    torch.accelerator.reset_accumulated_memory_stats()
    assert torch.accelerator.memory_stats()["allocation.all.allocated"] == 0
    del x
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_allocated() <= before
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total


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


@pytest.mark.parametrize("make", [torch.lazuli.Event, torch.Event])
def test_the_time_between_events(device, make):
    first, last = torch.lazuli.Event(enable_timing=True), make(device=device, enable_timing=True)
    first.record()
    torch.ones(1000, device=device) + 1
    last.record()
    last.synchronize()
    assert first.elapsed_time(last) > 0
    assert last.elapsed_time(first) < 0
    assert isinstance(first, torch.Event)
    assert isinstance(last, torch.lazuli.Event)
    assert not isinstance(torch.Event(device="cpu"), torch.lazuli.Event)


def test_the_default_stream_and_no_capturing(device):
    assert torch.lazuli.default_stream() == torch.lazuli.current_stream()
    assert not torch.lazuli.is_current_stream_capturing()
    with torch.lazuli.StreamContext(torch.lazuli.default_stream()):
        pass


def test_properties(device):
    properties = torch.lazuli.get_device_properties(device)
    assert properties.total_memory == torch.lazuli.mem_get_info()[1]
    assert properties.multi_processor_count >= 1
    assert properties.name
    assert torch.lazuli.get_device_capability() == (properties.major, properties.minor)
    assert not torch.lazuli.can_device_access_peer(0, 0)


def test_what_only_cuda_has_says_what_to_do_without(device):
    assert not hasattr(torch.lazuli, "CUDAGraph")
    with pytest.raises(AttributeError, match="a step that comes again is replayed without it"):
        torch.lazuli.graph  # noqa: B018


def test_the_default_generator(device):
    (generator,) = torch.lazuli.default_generators
    torch.manual_seed(5)
    assert generator.device == torch.device(device, 0)
    assert generator.initial_seed() == 5
    first = torch.rand(5, device=device).cpu()
    generator.manual_seed(5)
    assert torch.equal(torch.rand(5, device=device).cpu(), first)


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
    assert torch.lazuli.max_memory_reserved() >= torch.lazuli.memory_reserved() >= 0
    nested = torch.lazuli.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["peak"] == torch.lazuli.max_memory_allocated()
    assert "Reserved memory" in torch.lazuli.memory_summary()


def test_amp_types(device):
    assert torch.bfloat16 in torch.lazuli.get_amp_supported_dtype()
    assert torch.lazuli.is_bf16_supported()
