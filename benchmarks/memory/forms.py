"""Attention as programs write it out, each with the mask, bias or precision of its kind of model.

A form takes queries, keys and values [batch, heads, length, depth], and makes its mask each time.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

HEADS, DEPTH = 8, 64
BUCKETS = 32

Tensor = torch.Tensor
Form = Callable[[Tensor, Tensor, Tensor], Tensor]


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _scores(q, k).softmax(-1) @ v


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As GPT-2's first versions did it."""
    length = q.shape[2]
    seen = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
    return _scores(q, k).masked_fill(~seen, float("-inf")).softmax(-1) @ v


def added(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Padding and a causal mask, added as the least float (transformers' eager attention)."""
    length, least = q.shape[2], torch.finfo(q.dtype).min
    mask = torch.full((length, length), least, device=q.device).triu(1)[None, None]
    there = torch.arange(length, device=q.device) < length - 3
    mask = mask.masked_fill(~there[None, None, None], least)
    weights = functional.softmax(_scores(q, k) + mask, dim=-1, dtype=torch.float32).to(q.dtype)
    return weights @ v


def alibi(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A slope for each head, times how far away a key is."""
    position = torch.arange(q.shape[2], device=q.device)
    slopes = 2.0 ** -torch.arange(1, q.shape[1] + 1, device=q.device)
    distance = position[None, :] - position[:, None]
    bias = (slopes[:, None, None] * distance)[None]
    bias = bias.masked_fill(distance > 0, float("-inf"))
    return (_scores(q, k) + bias).softmax(-1) @ v


class Relative(nn.Module):
    """A learned number for each head and bucket of distances (T5)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(BUCKETS, HEADS)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        position = torch.arange(q.shape[2], device=q.device)
        distance = position[None, :] - position[:, None]
        near = distance.abs().clamp(max=BUCKETS // 2 - 1)
        bucket = near + (distance > 0) * (BUCKETS // 2)
        bias = self.table(bucket).permute(2, 0, 1)[None]
        return (q @ k.transpose(-1, -2) + bias).softmax(-1) @ v


def dropped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Dropout of probabilities."""
    return functional.dropout(_scores(q, k).softmax(-1), 0.1) @ v


def shared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys and values that two heads share, repeated (transformers' repeat_kv)."""

    def repeated(x: Tensor) -> Tensor:
        batch, heads, length, depth = x.shape
        x = x[:, :, None].expand(batch, heads, 2, length, depth)
        return x.reshape(batch, 2 * heads, length, depth)

    half = q.shape[1] // 2
    return causal(q, repeated(k[:, :half]), repeated(v[:, :half]))


def bfloat16(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores of 16 bits, whose softmax is computed in 32."""
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    weights = functional.softmax(_scores(q, k), dim=-1, dtype=torch.float32).bfloat16()
    return (weights @ v).float()


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """torch's own function, which no arm writes out."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


FORMS: dict[str, Callable[[], Form]] = {
    "plain": lambda: plain,
    "causal": lambda: causal,
    "added": lambda: added,
    "alibi": lambda: alibi,
    "relative": Relative,
    "dropped": lambda: dropped,
    "shared": lambda: shared,
    "bfloat16": lambda: bfloat16,
    "fused": lambda: fused,
}


class Layer(nn.Module):
    """Attention with its projections."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.into = nn.Linear(HEADS * DEPTH, 3 * HEADS * DEPTH)
        self.out = nn.Linear(HEADS * DEPTH, HEADS * DEPTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.into(x).view(batch, length, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4)
        y = self.form(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))
