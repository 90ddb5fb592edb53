"""A decoder of the usual form, and how it generates: a token a step, with a cache that grows."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

LAYERS, WIDTH, HEADS, VOCABULARY, PROMPT = 12, 768, 12, 32768, 16

Cache = list[tuple[torch.Tensor, torch.Tensor]]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, cache: Cache, layer: int) -> torch.Tensor:
        length = x.shape[1]
        heads = self.qkv(self.first_norm(x)).view(1, length, 3, HEADS, -1).transpose(1, 3)
        q, k, v = heads.unbind(2)
        if layer < len(cache):
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache[layer], (k, v), strict=True))
            cache[layer] = k, v
        else:
            cache.append((k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(y.transpose(1, 2).reshape(1, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.second_norm(x))))


class Decoder(nn.Module):
    """12 layers of 768, and a vocabulary of 32,768: 110 million weights are read for a token."""

    def __init__(self, positions: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(positions, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor, first: int, cache: Cache) -> torch.Tensor:
        places = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)
        return self.head(self.norm(x[:, -1:]))


class Generation:
    """The tokens that follow a prompt, greedily, each of which is read: what a step gives.

    The cache has no length twice.
    """

    def __init__(self, model: Callable, device: str) -> None:
        self.model, self.cache, self.length = model, [], PROMPT
        prompt = torch.arange(PROMPT).mul(37).remainder(VOCABULARY)[None].to(device)
        with torch.inference_mode():
            self.token = model(prompt, 0, self.cache)[:, -1].argmax(-1, keepdim=True)

    @torch.inference_mode()
    def step(self) -> int:
        logits = self.model(self.token, self.length, self.cache)
        self.token = logits[:, -1].argmax(-1, keepdim=True)
        self.length += 1
        return int(self.token)
