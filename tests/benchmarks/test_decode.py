"""The generation that `tools/bench decode` measures."""

import pytest
import torch

from benchmarks.decode import decoder, weights


@pytest.fixture
def small(monkeypatch):
    for name, value in {
        "LAYERS": 1,
        "WIDTH": 64,
        "HEADS": 2,
        "VOCABULARY": 128,
        "PROMPT": 4,
    }.items():
        monkeypatch.setattr(decoder, name, value)


def logits(model, tokens):
    with torch.no_grad():
        return model(tokens, 0, [])


def test_the_cache_gives_what_the_whole_sequence_gives(small):
    torch.manual_seed(0)
    model = decoder.Decoder(16).eval()
    generation = decoder.Generation(model, "cpu")
    tokens = torch.arange(decoder.PROMPT).mul(37).remainder(decoder.VOCABULARY)[None]
    for _ in range(5):
        tokens = torch.cat([tokens, generation.token], 1)
        generation.step()
        assert int(generation.token) == int(logits(model, tokens)[0, -1].argmax())


# How far logits may be from float32's, relative to the largest.
@pytest.mark.parametrize(("kind", "error"), [("int8", 0.02), ("int4", 0.3), ("dynamic int8", 0.05)])
def test_fewer_bits_say_about_the_same(small, kind, error):
    torch.manual_seed(0)
    tokens = torch.arange(6)[None]
    expected = logits(decoder.Decoder(16).eval(), tokens)
    torch.manual_seed(0)
    with torch.no_grad():
        model = weights.KINDS[kind](decoder.Decoder(16).eval())
    given = logits(model, tokens)
    assert (given - expected).abs().max() < error * expected.abs().max()


def test_bytes_that_a_token_reads(small):
    model = decoder.Decoder(16)
    block = 4 * 64 * 64 + 2 * 4 * 64 * 64 + (3 + 1 + 4 + 1) * 64  # products and their biases
    numbers = block + 3 * 2 * 64 + 128 * 64  # norms and the head
    assert weights.bytes_read(model) == 4 * numbers
    with torch.no_grad():
        packed = weights.KINDS["int4"](model)
    matrices = 12 * 64 * 64 + 128 * 64
    factors = 8 * matrices // weights.GROUP
    assert weights.bytes_read(packed) == matrices // 2 + factors + 4 * (numbers - matrices)
