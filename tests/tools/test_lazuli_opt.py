"""lazuli-opt: whole-graph gradients in text, run by the reference interpreter, are torch's."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
OPT = ROOT / "build" / os.environ.get("LAZULI_PRESET", "release") / "lazuli-opt"

GRAPH = """%0 : f64[4,6] = input [position=0]
%1 : f64[6,6] = input [position=1]
%2 : f64[6] = input [position=2]
%3 : f64[4,6] = matmul %0, %1
%4 : f64[4,6] = add %3, %2
%5 : f64[4,6] = gelu %4
%6 : f64[4,6] = add %5, %0
%7 : f64[] = constant [value=0.01]
%8 : f64[4,6], %9 : f64[4,1], %10 : f64[4,1] = layer_norm %6, %2, _, %7 [dims=1]
%11 : f64[4,6] = softmax %8 [dim=1]
%12 : f64[4,6] = matmul %11, %1
%13 : f64[4,6] = mul %12, %6
return %13, %5
"""


def model(x, w, b):
    y = torch.nn.functional.gelu(x @ w + b)
    z = y + x
    normed = torch.nn.functional.layer_norm(z, (6,), b, None, 0.01)
    return (normed.softmax(1) @ w) * z, y


def ramp(position, *shape):
    """The numbers that lazuli-opt interprets with."""
    numbers = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (((numbers * 7 + position * 3) % 23 - 11) / 11).view(shape).requires_grad_()


def run(*arguments, text):
    return subprocess.run(
        [str(OPT), *arguments], input=text, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("passes", ["dead_code", "all"])
def test_gradients_of_a_graph(passes):
    if not OPT.exists():
        pytest.skip("lazuli-opt is not built")
    inputs = [ramp(0, 4, 6), ramp(1, 6, 6), ramp(2, 6)]
    outputs = model(*inputs)
    expected = [
        *outputs,
        *torch.autograd.grad(outputs, inputs, [torch.ones_like(t) for t in outputs]),
    ]
    gradients = run("--grad", text=GRAPH)
    lines = run("--interpret", "--passes", passes, text=gradients).splitlines()
    assert len(lines) == len(expected)
    for line, e in zip(lines, expected, strict=True):
        actual = torch.tensor([float(n) for n in line.split(":")[1].split()], dtype=torch.float64)
        torch.testing.assert_close(actual.view(e.shape), e.detach(), rtol=1e-4, atol=1e-4)
