"""Attention that drops weights: torch's fused kernel, at places of our generator's choice."""

import contextlib
import functools
import itertools
import math
import threading

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

P = 0.25
B, H, N, D = 2, 3, 48, 48  # as many columns as keys: with the identity for v, what comes is weights


def tensors(dtype=torch.bfloat16):
    torch.manual_seed(0)
    q, k = (torch.randn(B, H, N, D).to(dtype) for _ in range(2))
    return q, k, torch.eye(N).expand(B, H, N, D).to(dtype)


def attention(q, k, v, causal=False):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=P, is_causal=causal)


def weights(q, k, causal):
    scores = q.double() @ k.double().transpose(-1, -2) / math.sqrt(D)
    if causal:
        scores = scores.masked_fill(~torch.ones(N, N, dtype=torch.bool).tril(), -math.inf)
    return scores.softmax(-1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_drops_weights_and_scales_the_others(dtype, causal):
    q, k, v = tensors(dtype)
    w = weights(q, k, causal)
    torch.lazuli.reset_metrics()
    got = attention(*(t.to("lazuli") for t in (q, k, v)), causal).double().cpu()
    calls = torch.lazuli.metrics()["external_calls"]
    assert any("attention_with_dropout" in name for name in calls)
    kept = got != 0
    torch.testing.assert_close(got[kept], (w / (1 - P))[kept], rtol=0.02, atol=1e-3)
    share = (kept & (w > 1e-3)).sum() / (w > 1e-3).sum()
    assert abs(share - (1 - P)) < 0.03


def test_with_a_bias_and_in_float32():
    """By another kernel, whose derivative reads on the host what was dropped."""
    for dtype, size in ((torch.bfloat16, N), (torch.bfloat16, 1), (torch.float32, None)):
        q, k, v = tensors(dtype)
        bias = None if size is None else torch.randn(B, 1, N, size).to(dtype)
        for _ in range(4):
            given = [q, k, v] if bias is None else [q, k, v, bias]
            leaves = [t.clone().to("lazuli").requires_grad_() for t in given]
            out = F.scaled_dot_product_attention(*leaves, dropout_p=P)
            (out.float() * 2).sum().backward()
            want = [t.double().requires_grad_() for t in given]
            scores = want[0] @ want[1].transpose(-1, -2) / math.sqrt(D)
            w = (scores if bias is None else scores + want[3]).softmax(-1)
            kept = (out.detach().cpu() != 0).double() / (1 - P)
            result = (w * kept) @ want[2]
            torch.testing.assert_close(out.double().cpu(), result, rtol=0.03, atol=2e-3)
            (result * 2).sum().backward()
            for ours, reference in zip(leaves, want, strict=True):
                torch.testing.assert_close(
                    ours.grad.double().cpu(), reference.grad, rtol=0.05, atol=0.05
                )
    calls = torch.lazuli.metrics()["external_calls"]
    assert not any("softmax" in name for name in calls)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_the_weights_that_were_kept(causal):
    """The mask of each of two calls is read off their results; the derivative has to know it."""
    q, k, v = tensors()
    for _ in range(4):  # planned, reused, captured
        leaves = [t.clone().to("lazuli").requires_grad_() for t in (q, k, v)]
        first, second = attention(*leaves, causal), attention(*leaves, causal)
        (first * 1.5).sum().backward(retain_graph=True)
        (second * torch.arange(D, device="lazuli") / D).float().sum().backward()
        want = [t.double().requires_grad_() for t in (q, k, v)]
        w = weights(*want[:2], causal)
        total = 0
        for out, factor in ((first, 1.5), (second, torch.arange(D).double() / D)):
            kept = (out.detach().cpu() != 0).double() / (1 - P)
            total = total + (((w * kept) @ want[2]) * factor).sum()
        total.backward()
        assert not torch.equal(first.cpu(), second.cpu())
        for ours, reference in zip(leaves, want, strict=True):
            torch.testing.assert_close(
                ours.grad.double().cpu(), reference.grad, rtol=0.05, atol=0.02
            )


def test_a_seed_gives_the_same_weights_and_torchs_generator_is_left_alone():
    q, k, v = (t.to("lazuli") for t in tensors())
    before = torch.cuda.get_rng_state()
    results = []
    for _ in range(6):
        torch.manual_seed(3)
        torch.rand(5, device="lazuli")
        results.append(torch.stack([attention(q, k, v), attention(q, k, v)]).cpu())
        torch.manual_seed(torch.initial_seed())
    assert all(torch.equal(r, results[0]) for r in results)
    assert not torch.equal(results[0][0], results[0][1])
    torch.cuda.manual_seed(torch.initial_seed())
    assert torch.cuda.default_generators[0].get_offset() == 0
    assert torch.equal(torch.cuda.get_rng_state()[8:], before[8:])


def test_another_thread_may_seed_torchs_generator():
    q, k, v = (t.to("lazuli") for t in tensors())
    done = threading.Event()

    def seed():
        while not done.is_set():
            torch.cuda.manual_seed(7)

    seeding = threading.Thread(target=seed)
    seeding.start()
    try:
        results = []
        for _ in range(50):
            torch.lazuli.manual_seed(3)
            results.append(torch.stack([attention(q, k, v) for _ in range(4)]).cpu())
    finally:
        done.set()
        seeding.join()
    assert all(torch.equal(r, results[0]) for r in results)
    assert torch.cuda.initial_seed() == 7
    assert torch.cuda.default_generators[0].get_offset() == 0


def test_reading_the_state_of_torchs_generator_meanwhile():
    """The runner's thread borrows the generator while this one records, and saves its state."""

    def train(saves):
        q, k, v = (t.to("lazuli").requires_grad_() for t in tensors())
        optimizer = torch.optim.SGD([q, k, v], lr=1e-3)  # its steps end traces, and wait for none
        torch.manual_seed(3)
        torch.rand(5, device="lazuli")
        losses = []
        for _ in range(60):
            with torch.random.fork_rng() if saves else contextlib.nullcontext():
                loss = attention(q, k, v).float().square().sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            losses.append(loss.detach())
        results = torch.stack(losses).cpu()  # now no call borrows the generator
        assert torch.cuda.default_generators[0].get_offset() == 0
        return results

    torch.lazuli.reset_metrics()
    want = train(saves=False)
    assert torch.equal(train(saves=True), want)
    assert not any("softmax" in name for name in torch.lazuli.metrics()["external_calls"])


def test_recomputed_in_a_checkpoint():
    q, k, v = tensors()
    grads = []
    for run in (attention, functools.partial(checkpoint, attention, use_reentrant=False)):
        torch.manual_seed(1)
        leaves = [t.clone().to("lazuli").requires_grad_() for t in (q, k, v)]
        out = run(*leaves)
        out.float().square().sum().backward()
        grads.append([leaf.grad.cpu() for leaf in leaves])
    for plain, recomputed in zip(*grads, strict=True):
        torch.testing.assert_close(recomputed, plain, rtol=0.02, atol=0.02)


def test_compiled_draws_anew_in_each_call():
    q, k, v = tensors()
    run = torch.compile(attention, backend="lazuli", fullgraph=True)
    seen = []
    for _ in range(6):
        leaves = [t.clone().to("lazuli").requires_grad_() for t in (q, k, v)]
        out = run(*leaves)
        out.float().sum().backward()
        kept = (out.detach().cpu() != 0).double() / (1 - P)
        want = [t.double().requires_grad_() for t in (q, k, v)]
        ((weights(*want[:2], False) * kept) @ want[2]).sum().backward()
        for ours, reference in zip(leaves, want, strict=True):
            torch.testing.assert_close(
                ours.grad.double().cpu(), reference.grad, rtol=0.05, atol=0.02
            )
        seen.append(out.detach().cpu())
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(seen))


def test_who_draws_from_torchs_generator_keeps_it():
    """Then another thread may be drawing at any moment."""
    q, k, v = (t.to("lazuli") for t in tensors())
    torch.rand(4, device="cuda")
    try:
        torch.lazuli.reset_metrics()
        attention(q, k, v).cpu()
        assert not any("dropout" in c for c in torch.lazuli.metrics()["external_calls"])
    finally:
        torch.cuda.manual_seed(0)
