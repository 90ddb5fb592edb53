"""Counting of memory: what tensors hold, peaks, and that freed memory is given back."""

import gc

import torch


def live():
    torch.lazuli.synchronize()
    return torch.lazuli.memory_allocated()


def test_a_tensor_counts_while_it_lives(device):
    gc.collect()
    before = live()
    x = torch.ones(1 << 18, device=device) * 2
    assert live() - before >= 1 << 20
    del x
    assert live() <= before


def test_a_view_keeps_its_storage(device):
    before = live()
    v = (torch.ones(1 << 18, device=device) * 2)[:1]
    assert live() - before >= 1 << 20
    del v
    assert live() <= before


def test_what_nobody_reads_is_never_computed(device):
    torch.lazuli.synchronize()
    torch.lazuli.reset_peak_memory_stats()
    before = torch.lazuli.max_memory_allocated()
    for _ in range(10):
        torch.ones(1 << 20, device=device) * 2
    torch.lazuli.synchronize()
    assert torch.lazuli.max_memory_allocated() - before < 4 << 20


def test_temporaries_of_a_fused_chain_take_no_memory(device):
    x = torch.ones(1 << 20, device=device) * 1
    torch.lazuli.synchronize()
    torch.lazuli.reset_peak_memory_stats()
    before = torch.lazuli.max_memory_allocated()
    y = x
    for _ in range(20):
        y = (y * 1.01 + 1).sin()
    torch.lazuli.synchronize()
    assert torch.lazuli.max_memory_allocated() - before < 10 << 20
    assert y.numel() == 1 << 20


def test_memory_stats(device):
    x = torch.ones(1 << 18, device=device) * 2
    torch.lazuli.synchronize()
    stats = torch.lazuli.memory_stats()
    assert all(isinstance(value, int) for value in stats.values())
    assert max(stats.values()) >= x.nbytes
    free, total = torch.lazuli.mem_get_info()
    assert 0 < free < total


def test_sizes_that_nobody_asks_for_any_more_are_given_up(planned, device):
    """A program whose sizes change does not keep memory of each that it ever had."""
    torch.lazuli.empty_cache()
    reserved = torch.lazuli.memory_reserved

    def use(size):
        (torch.zeros(size, device=device) + 1).cpu()

    before = reserved()
    for size in (1 << 20, 3 << 19, 1 << 21):
        use(size)
    held = reserved() - before
    assert held >= 4 * (1 << 20)
    for _ in range(25_000):
        use(8)
        if reserved() - before < held / 8:
            return
    raise AssertionError(f"{reserved() - before} bytes are kept")


def test_what_grows_leaves_little_of_what_it_was(device):
    """A cache that is longer at each step needs memory of each size only once."""
    torch.lazuli.synchronize()
    torch.lazuli.empty_cache()
    before = torch.lazuli.memory_allocated(), torch.lazuli.memory_reserved()
    cache = [torch.zeros(16, 512, device=device) for _ in range(8)]
    for n in range(700):
        cache = [torch.cat([x, torch.full((1, 512), float(n), device=device)]) for x in cache]
        cache[0][-1, 0].item()
    allocated = torch.lazuli.memory_allocated() - before[0]
    reserved = torch.lazuli.memory_reserved() - before[1]
    assert 8 * 716 * 512 * 4 <= allocated <= reserved < 4 * allocated
    assert all(x[-1].eq(699).all() for x in cache)


def test_memory_that_is_a_little_larger_serves_as_well(planned, device):
    """A program whose sizes change finds what it had for others; what is far too large stays."""
    torch.lazuli.synchronize()
    torch.lazuli.empty_cache()
    before = torch.lazuli.memory_allocated()

    def use(size):
        (torch.zeros(size, device=device) + 1).cpu()
        torch.lazuli.synchronize()
        return torch.lazuli.memory_reserved()

    reserved = use(1 << 20)
    assert use(800_000) == use(600_000) == use(1 << 20) == reserved
    assert use(100_000) > reserved
    assert torch.lazuli.memory_allocated() == before


def test_what_torchs_kernels_have_computed_counts(device):
    """A step that is new runs with torch's kernels, whose results are torch's memory."""
    with torch.lazuli.config.patch(unplanned="always"):
        before = live()
        x = torch.ones(1 << 18, device=device) * 2
        y = torch.linalg.inv(torch.eye(512, device=device))
        assert live() - before >= 2 << 20
        del x, y
        assert live() <= before
