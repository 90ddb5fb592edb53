"""Linear layers of int8 weights that quantize what they are given: the same bits as eager's."""

import gc

import pytest
import torch
from differential import assert_same, assert_same_error, normal
from torch import nn

DEPTH, COLUMNS = 384, 200


def by_tensor(zero):
    return torch.quantize_per_tensor(torch.randn(COLUMNS, DEPTH), 0.02, zero, torch.qint8)


def by_row(zero):
    zeros = torch.randint(-9, 10, (COLUMNS,)) if zero else torch.zeros(COLUMNS, dtype=torch.long)
    scales = torch.rand(COLUMNS) / 40 + 1e-3
    return torch.quantize_per_channel(torch.randn(COLUMNS, DEPTH), scales, zeros, 0, torch.qint8)


def linear(name="linear_dynamic"):
    return getattr(torch.ops.quantized, name)


def packed(weight, bias=True):
    return torch.ops.quantized.linear_prepack(weight, torch.randn(COLUMNS) if bias else None)


@pytest.mark.parametrize("rows", [1, 3, 5, 70])
@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("weights", [by_tensor, by_row])
def test_weights(weights, zero, rows, counters):
    def run(device):
        w, x = packed(weights(zero)), normal(rows, DEPTH, device=device)
        bare = packed(weights(zero), bias=False)
        relu = linear("linear_relu_dynamic")
        return [linear()(x, w, True), linear()(x, bare, True), relu(x, w, True), linear()(x, w)]

    assert_same(run, rtol=0, atol=0)
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        assert not counters()["external_calls"]


RANGES = {
    "above zero": lambda x: x.abs(),
    "below zero": lambda x: -x.abs(),
    "nothing": lambda x: x * 0,
    "below the smallest scale": lambda x: x * 1e-4,
    "below zero and the smallest scale": lambda x: -x.abs() * 1e-4,
    "above zero and below the smallest scale": lambda x: x.abs() * 1e-4,
    "subnormal": lambda x: x * 1e-42,
    "large": lambda x: x * 1e30,
    "one number far away": lambda x: torch.where(x == x.max(), x * 1e3, x),
    "halves": lambda x: (x * 8).round() / 2,
}


@pytest.mark.parametrize("half_range", [True, False])
@pytest.mark.parametrize("kind", RANGES)
def test_ranges(kind, half_range):
    def run(device):
        w = packed(by_row(0))
        return [
            linear()(RANGES[kind](normal(rows, DEPTH, device=device)), w, half_range)
            for rows in (1, 2, 9)
        ]

    assert_same(run, rtol=0, atol=0)


@pytest.mark.parametrize("unplanned", ["always", "never", "auto"])
def test_however_it_runs(unplanned):
    """Layers one behind the other, which come again with other numbers of rows."""
    layers = [nn.Linear(64, 64) for _ in range(3)]

    def run(device):
        model = torch.ao.quantization.quantize_dynamic(
            nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.Hardtanh(), layers[2]), {nn.Linear}
        )
        given = [
            normal(*shape, 64, device=device) for shape in [(1,), (2, 3), (1,), (30,), (4, 2)] * 2
        ]
        with torch.inference_mode(), torch.lazuli.config.patch(unplanned=unplanned, tiers="parts"):
            return [model(x).cpu() for x in given]

    assert_same(run, rtol=0, atol=0)


def test_rows_of_a_view():
    def run(device):
        x = normal(DEPTH, 3, 2, device=device)
        return linear()(x.transpose(0, 2)[:, 1:], packed(by_row(3)), True)

    assert_same(run, rtol=0, atol=0)


def test_a_bias_that_is_written():
    def run(device):
        bias, x = torch.randn(COLUMNS), normal(2, DEPTH, device=device)
        w = torch.ops.quantized.linear_prepack(by_row(0), bias)
        first = linear()(x, w, True)
        bias.mul_(2)
        return first, linear()(x, w, True)

    assert_same(run, rtol=0, atol=0)


def test_weights_are_kept_no_longer_than_theirs(device):
    x = normal(1, DEPTH, device=device)
    seen = []
    for _ in range(4):
        linear()(x, packed(by_row(0)), True)
        torch.lazuli.synchronize()
        gc.collect()
        seen.append(torch.lazuli.memory_allocated())
    assert max(seen) - seen[0] < COLUMNS * DEPTH


@pytest.mark.parametrize("shape", [(2, DEPTH + 1), (DEPTH,), (0, DEPTH)])
def test_what_eager_refuses(shape):
    def run(device):
        return linear()(normal(*shape, device=device), packed(by_row(0)), True)

    if shape == (0, DEPTH):
        assert_same(run)
    else:
        assert_same_error(run)


def test_weights_of_float16():
    def run(device):
        w = torch.ops.quantized.linear_prepack_fp16(torch.randn(COLUMNS, DEPTH), None)
        return torch.ops.quantized.linear_dynamic_fp16(normal(2, DEPTH, device=device), w)

    assert_same(run)
