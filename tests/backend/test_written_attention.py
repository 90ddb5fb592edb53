"""Attention that a program writes out: eager's results, in memory that grows with the length."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional

HEADS, DEPTH, LENGTH = 8, 16, 2100  # scores of 135 MiB, which are computed in blocks

CAPTURED = {"capture_output": True, "text": True}

pytestmark = pytest.mark.usefixtures("planned_at_once")


def scores_of(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def plain(q, k, v, table):
    return scores_of(q, k).softmax(-1) @ v


def causal(q, k, v, table):
    length = q.shape[2]
    seen = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
    return scores_of(q, k).masked_fill(~seen, float("-inf")).softmax(-1) @ v


def added(q, k, v, table):
    length, least = q.shape[2], torch.finfo(q.dtype).min
    mask = torch.full((length, length), least, device=q.device).triu(1)[None, None]
    there = torch.arange(length, device=q.device) < length - 3
    mask = mask.masked_fill(~there[None, None, None], least)
    return functional.softmax(scores_of(q, k) + mask, dim=-1, dtype=torch.float32).to(q.dtype) @ v


def alibi(q, k, v, table):
    position = torch.arange(q.shape[2], device=q.device)
    slopes = 2.0 ** -torch.arange(1, HEADS + 1, device=q.device)
    distance = position[None, :] - position[:, None]
    bias = slopes[:, None, None] * distance
    return (scores_of(q, k) + bias.masked_fill(distance > 0, float("-inf"))).softmax(-1) @ v


def relative(q, k, v, table):
    position = torch.arange(q.shape[2], device=q.device)
    distance = (position[None, :] - position[:, None]).clamp(-8, 7) + 8
    bias = functional.embedding(distance, table).permute(2, 0, 1)[None]
    return (scores_of(q, k) + bias).softmax(-1) @ v


def shared(q, k, v, table):
    """Two heads share keys and values."""

    def repeated(x):
        batch, _, length, depth = x.shape
        x = x[:, : HEADS // 2, None].expand(batch, HEADS // 2, 2, length, depth)
        return x.reshape(batch, HEADS, length, depth)

    return causal(q, repeated(k), repeated(v), table)


def normed(q, k, v, table):
    """What is computed of the scores' rows is used further."""
    scores = scores_of(q, k)
    entropy = scores.logsumexp(-1, keepdim=True)
    return scores.softmax(-1) @ v + entropy


def narrow(q, k, v, table):
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    weights = functional.softmax(scores_of(q, k), dim=-1, dtype=torch.float32).bfloat16()
    return (weights @ v).float()


FORMS = [plain, causal, added, alibi, relative, shared, normed, narrow]


class Operands:
    def __init__(self, device, length=LENGTH, batch=1, grad=True):
        shape = batch, HEADS, length, DEPTH
        torch.manual_seed(0)
        self.leaves = [torch.randn(shape).to(device).requires_grad_(grad) for _ in range(3)]
        self.leaves.append(torch.randn(16, HEADS).to(device).requires_grad_(grad))

    def results(self, form):
        """The output and all gradients there are, on the CPU."""
        y = form(*self.leaves)
        if not y.requires_grad:
            return [y.cpu()]
        weights = torch.linspace(-1, 1, y.shape[-1], device=y.device)
        (y.square() * weights).sum().backward()  # backward needs what forward gave
        grads = [leaf.grad for leaf in self.leaves if leaf.grad is not None]
        return [x.detach().cpu() for x in (y, *grads)]


def assert_close(results, expected, tolerance=2e-5):
    assert len(results) == len(expected)
    for got, want in zip(results, expected, strict=True):
        scale = want.abs().max().item()
        torch.testing.assert_close(got, want, rtol=0, atol=tolerance * scale)


def print_peaks(form, grad):
    """Resident bytes that a run of 2,048 tokens adds at most: in blocks, and without the pass."""
    from benchmarks import resident  # tests have a folder of that name

    for disabled in ("", "query_blocks"):
        with torch.lazuli.config.patch(tiers="plans", disable_passes=disabled):
            operands = Operands("lazuli", 2048, grad=grad)
            torch.lazuli.synchronize()
            with resident.growth() as grown:
                operands.results(form)
            print(grown["peak"])


def peaks_of(form, grad):
    """The same, of a new process."""
    code = f"import {__name__} as t; t.print_peaks(t.{form.__name__}, {grad})"
    here = Path(__file__).parent
    path = f"{here}{os.pathsep}{here.parent.parent}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, **CAPTURED
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize("grad", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_results_are_eagers(device, form, grad):
    expected = Operands("cpu", grad=grad).results(form)
    results = Operands(device, grad=grad).results(form)
    assert_close(results, expected, 2e-2 if form is narrow else 2e-5)


@pytest.mark.parametrize("batch", [1, 3])
def test_any_batch(device, batch):
    expected = Operands("cpu", batch=batch).results(relative)
    assert_close(Operands(device, batch=batch).results(relative), expected)


@pytest.mark.parametrize(
    ("form", "grad"),
    [(causal, False), (causal, True), (relative, False)],
    ids=["causal-forward", "causal-training", "relative-forward"],
)
def test_scores_are_never_all_in_memory(form, grad):
    blocks, whole = peaks_of(form, grad)
    assert blocks < whole / 2


def written_dropout(q, k, v, table):
    return functional.dropout(scores_of(q, k).softmax(-1), 0.2) @ v


def test_dropout_is_the_same_in_blocks_and_in_backward(device):
    """Each block draws what all of it would, and backward drops what forward dropped."""

    def run():
        torch.lazuli.manual_seed(3)
        return Operands(device).results(written_dropout)

    results = run()
    with torch.lazuli.config.patch(disable_passes="query_blocks"):
        expected = run()
    assert_close(results, expected)
    assert peaks_of(written_dropout, True)[0] < HEADS * 2048 * 2048 * 4


def test_probabilities_that_are_returned_are_there(device):
    """Who asks for the probabilities gets them, and the same output."""

    def both(q, k, v):
        weights = scores_of(q, k).softmax(-1)
        return weights @ v, weights

    expected = [x.detach() for x in both(*Operands("cpu").leaves[:3])]
    results = [x.detach().cpu() for x in both(*Operands(device).leaves[:3])]
    assert_close(results, expected)


def test_several_layers(device):
    """Layers that share a mask, with something between them."""

    def layers(q, k, v, table):
        for _ in range(3):
            q = torch.tanh(causal(q, k, v, table)) + q
        return q

    assert_close(Operands(device).results(layers), Operands("cpu").results(layers))


def test_second_derivatives(device):
    def curvature(q, k, v, table):
        y = plain(q, k, v, table)
        (grad,) = torch.autograd.grad(y.square().sum(), q, create_graph=True)
        return grad

    assert_close(Operands(device).results(curvature), Operands("cpu").results(curvature), 1e-4)
