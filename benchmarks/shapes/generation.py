"""Text generation with a cache that grows by a token a step."""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks import harness
from benchmarks.shapes.training import VOCABULARY, Step

PROMPT = 16


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=VOCABULARY, n_positions=1024, n_embd=384, n_layer=6, n_head=6)
    return GPT2LMHeadModel(config)


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=1024,
    )
    return LlamaForCausalLM(config)


def make_decoding_step(arm: str, build: Callable[[], nn.Module], batch: int) -> Step:
    """A function that decodes a token for each of `batch` texts.

    Call n sees a cache of n tokens more than the prompt's; one that does not follow begins anew.
    """
    torch.manual_seed(0)
    device = harness.device_of(arm)
    model = build().eval().to(device)
    run = harness.compiled(arm, model, dynamic=True)
    prompt = torch.randint(VOCABULARY, (batch, PROMPT)).to(device)
    state: dict[str, object] = {"next": None}

    @torch.no_grad()
    def step(n: int) -> float:
        if n != state["next"]:
            first = prompt.repeat(1, 1 + n // PROMPT)[:, : PROMPT + n]
            out = run(first, use_cache=True)
            state.update(cache=out.past_key_values, token=out.logits[:, -1:].argmax(-1))
        out = run(state["token"], past_key_values=state["cache"], use_cache=True)
        state.update(cache=out.past_key_values, token=out.logits[:, -1:].argmax(-1), next=n + 1)
        return float(state["token"][0, 0])

    return step
