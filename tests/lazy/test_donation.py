"""Results take over the memory of values that nobody can read any more, and only of those."""

import torch
from differential import assert_same, normal


def steps(device, keep):
    """Three times the same trace, the value before each being kept, or not, in some way."""
    x = normal(1000, device=device)
    seen = []
    for step in range(6):
        kept = keep(x, step)
        x.mul_(1.5).add_(1)
        if device != "cpu":
            torch.lazuli.synchronize()
        seen.append((x.clone(), kept.clone() if kept is not None else None))
    return seen


def test_values_that_nobody_keeps():
    assert_same(lambda device: steps(device, lambda x, step: None))


def test_a_copy_made_before():
    assert_same(lambda device: steps(device, lambda x, step: x.clone()))


def test_a_copy_made_now_and_then():
    """The executable was made for runs in which the memory may be taken over."""
    assert_same(lambda device: steps(device, lambda x, step: x.clone() if step % 2 else None))


def test_a_copy_that_was_read_before():
    def keep(x, step):
        y = x.clone()
        if step % 2:
            y.sum().item()
        return y

    assert_same(lambda device: steps(device, keep))


def test_a_value_saved_for_backward():
    def compute(device):
        w = normal(50, device=device)
        grads = []
        for _ in range(3):
            x = normal(50, device=device, grad=True)
            y = (x * w.clone()).sum()
            w = w.detach().clone()
            w.mul_(2)
            if device != "cpu":
                torch.lazuli.synchronize()
            y.backward()
            grads.append(x.grad)
        return grads, w

    assert_same(compute)


def test_memory_shared_with_the_host_stays():
    x = torch.ones(100).to("lazuli")
    for _ in range(3):
        before = x.cpu()
        wanted = before.clone()
        x.add_(1)
        torch.lazuli.synchronize()
        torch.testing.assert_close(before, wanted, rtol=0, atol=0)


def test_updates_in_place_take_no_memory(device):
    xs = [torch.ones(1 << 18).to("lazuli") for _ in range(4)]
    for _ in range(3):
        torch.lazuli.synchronize()
        torch.lazuli.reset_peak_memory_stats()
        live = torch.lazuli.memory_allocated()
        for x in xs:
            x.mul_(0.5)
        torch.lazuli.synchronize()
    assert torch.lazuli.max_memory_allocated() == live
