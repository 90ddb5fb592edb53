"""Well-known models train as on eager CUDA: ten AdamW steps."""

import pytest
import torch
from small_models import MODELS, build
from test_training import STEPS, train


def assert_follows(actual, expected, relative):
    for step, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert abs(a - e) <= relative * abs(e), f"step {step}: {actual} against {expected}"


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_losses_follow_cuda(name, options):
    _, expected = train(name, "cuda", options=options)
    _, actual = train(name, "lazuli", options=options)
    assert expected[-1] < expected[0]
    assert_follows(actual, expected, 1e-3)


def distance(losses, exact):
    return max(abs(a - e) / abs(e) for a, e in zip(losses, exact, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_losses_under_autocast(name):
    """They are about as far from float32's as eager CUDA's own are."""

    def losses(device, dtype):
        model, batch = build(name, device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        seen = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            with torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16):
                loss = model(**batch)
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        return seen

    exact = losses("cuda", torch.float32)
    eager = distance(losses("cuda", torch.bfloat16), exact)
    ours = distance(losses("lazuli", torch.bfloat16), exact)
    print(f"{name}: distance to float32 {ours:.2e}, eager's {eager:.2e}")
    assert ours <= 1.5 * eager + 1e-2


@pytest.mark.parametrize("name", MODELS)
def test_losses_that_are_read_at_the_end(name):
    """No step waits for the one before."""
    losses = {}
    for device in ("cuda", "lazuli"):
        model, batch = build(name, device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        kept = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model(**batch)
            loss.backward()
            optimizer.step()
            kept.append(loss.detach())
        losses[device] = torch.stack(kept).tolist()
    assert_follows(losses["lazuli"], losses["cuda"], 1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_compiled_after_the_third_step(name, counters):
    seen = []
    train(name, "lazuli", lambda step: seen.append(counters()))
    for kind in ("traces_compiled", "kernels_compiled"):
        counts = [metrics[kind] for metrics in seen]
        assert counts[3:] == [counts[2]] * (STEPS - 3), (kind, counts)
