"""Weights of few bits that are dequantized where they are used, in traces that run in parts."""

import pytest
import torch
from differential import assert_same, normal
from torch.nn import functional as F

LAYERS, WIDTH = 3, 512


def int8(device):
    w = torch.randint(-127, 128, (WIDTH, WIDTH), dtype=torch.int8).to(device)
    scale = (torch.rand(WIDTH, 1) / 500).to(device)
    return lambda x: F.linear(x, w.to(x.dtype) * scale)


def int8_with_zeros(device):
    w = torch.randint(0, 256, (WIDTH, WIDTH), dtype=torch.uint8).to(device)
    scale = (torch.rand(WIDTH, WIDTH // 64, 1) / 500).to(device)
    zero = torch.randint(100, 150, (WIDTH, WIDTH // 64, 1), dtype=torch.uint8).to(device)

    def linear(x):
        dense = (w.view(WIDTH, -1, 64).to(x.dtype) - zero.to(x.dtype)) * scale
        return x @ dense.view(WIDTH, WIDTH).t()

    return linear


def int4_in_bytes(device):
    w = torch.randint(0, 256, (WIDTH, WIDTH // 2), dtype=torch.uint8).to(device)

    def linear(x):
        dense = torch.stack([w & 15, w >> 4], 2).view(WIDTH, WIDTH).to(x.dtype) - 8
        return F.linear(x, dense) / 100

    return linear


@pytest.mark.parametrize("kind", [int8, int8_with_zeros, int4_in_bytes])
def test_a_cache_that_grows(kind, counters):
    """The prompt's rows, and then a row a step."""

    def run(device):
        layers = [kind(device) for _ in range(LAYERS)]
        x, cache, read = normal(6, WIDTH, device=device), [None] * LAYERS, []
        with torch.no_grad(), torch.lazuli.config.patch(tiers="parts"):
            for _ in range(6):
                for i, layer in enumerate(layers):
                    new = F.gelu(layer(x))
                    cache[i] = new if cache[i] is None else torch.cat([cache[i], new])
                    x = x + torch.softmax(new @ cache[i].t(), 1) @ cache[i]
                    x = F.layer_norm(x, [WIDTH])
                read.append(x.cpu())
                x = x[-1:]
        return read

    assert_same(run, rtol=1e-3, atol=1e-3)
    assert counters()["traces_in_parts"] >= 6


def test_nothing_that_is_dequantized_is_in_memory(device):
    w = torch.randint(-127, 128, (1024, 1024), dtype=torch.int8).to(device)
    x = normal(1, 1024, device=device)
    with torch.lazuli.config.patch(tiers="parts"):
        for _ in range(4):
            torch.lazuli.synchronize()
            before = torch.lazuli.memory_allocated()
            torch.lazuli.reset_peak_memory_stats()
            # So that there is a part before it.
            y = F.linear(torch.softmax(x @ x.t(), 1) * x, w.to(x.dtype))
            torch.lazuli.synchronize()
        assert torch.lazuli.max_memory_allocated() - before < w.numel()
    torch.testing.assert_close(y.cpu(), F.linear(x.cpu(), w.cpu().float()), rtol=1e-4, atol=1e-2)
