"""torch's fast path for inference of transformer layers, which is recorded in other ops."""

import pytest
import torch
from differential import DEVICES, compare
from torch import nn

WIDTH, HEADS, BATCH, ROWS = 16, 4, 3, 5
TYPES = [torch.float32, torch.float64, torch.bfloat16]
NARROW = {"atol": 0.02, "rtol": 0.02}


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


def masks():
    scores = torch.ones(ROWS, ROWS, dtype=torch.bool).triu(1)
    keys = torch.zeros(BATCH, ROWS, dtype=torch.bool)
    keys[1, 3:] = True
    return {
        "none": {},
        "scores": {"src_mask": scores},
        "keys": {"src_key_padding_mask": keys},
        "both": {"src_mask": scores, "src_key_padding_mask": keys},
        "all keys": {"src_key_padding_mask": torch.ones_like(keys)},
        "numbers": {"src_mask": torch.zeros(ROWS, ROWS).masked_fill(scores, -0.5)},
    }


def assert_same(make, *operands, tolerance=None, **named):
    """`make` gives the same for the operands on the CPU and, with all of them, on the device."""

    def moved(x, device):
        return x.to(device) if isinstance(x, (torch.Tensor, nn.Module)) else x

    results = []
    for device in DEVICES:
        given = [moved(x, device) for x in operands]
        options = {name: moved(x, device) for name, x in named.items()}
        results.append(make(*given, **options))
    expected, actual = results
    compare(actual, expected, **(tolerance or {}))


@pytest.mark.parametrize("mask", masks())
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(mask, norm_first, activation, counters):
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 32, activation=activation, norm_first=norm_first, batch_first=True
    ).eval()
    x = torch.randn(BATCH, ROWS, WIDTH)
    assert_same(lambda m, x, **kw: m(x, **kw), layer, x, **masks()[mask])
    assert not counters()["external_calls"]


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True).eval().to(dtype)
    x = torch.randn(BATCH, ROWS, WIDTH, dtype=dtype)
    assert_same(lambda m, x: m(x), layer, x, tolerance=NARROW if dtype == torch.bfloat16 else None)


@pytest.mark.parametrize("mask", ["none", "scores", "keys", "all keys"])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_multihead_attention(mask, need_weights, average, counters):
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x = torch.randn(BATCH, ROWS, WIDTH)
    names = {"src_mask": "attn_mask", "src_key_padding_mask": "key_padding_mask"}
    options = {names[name]: value for name, value in masks()[mask].items()}

    def run(m, x, **kw):
        return m(x, x, x, need_weights=need_weights, average_attn_weights=average, **kw)

    assert_same(run, attention, x, **options)
    assert not counters()["external_calls"]


def operands(keys=ROWS):
    q, k, v = (torch.randn(BATCH, n, WIDTH) for n in (ROWS, keys, keys))
    w, b = torch.randn(3 * WIDTH, WIDTH), torch.randn(3 * WIDTH)
    return q, k, v, WIDTH, HEADS, w, b, torch.randn(WIDTH, WIDTH), torch.randn(WIDTH)


def test_other_keys_than_queries():
    q, k, v, *rest = operands()
    assert_same(torch._native_multi_head_attention, q, k, k, *rest, None, True, False)
    assert_same(torch._native_multi_head_attention, q, k, v, *rest, None, False)


def test_mask_of_all_dimensions():
    q, _, _, *rest = operands()
    closed = torch.rand(BATCH, HEADS, ROWS, ROWS) < 0.3

    def run(q, *rest):
        return torch._native_multi_head_attention(q, q, q, *rest, mask_type=2)

    assert_same(run, q, *rest, closed)


@pytest.mark.parametrize("norm_first", [False, True])
def test_strides_of_a_sequence_first_input(norm_first):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, norm_first=norm_first, batch_first=True)
    x = torch.randn(ROWS, BATCH, WIDTH)
    assert_same(lambda m, x: m(x.transpose(0, 1)), layer.eval(), x)


@pytest.mark.parametrize("wrong", ["weight", "bias", "heads", "mask", "type", "keys"])
def test_errors_are_eagers(wrong):
    given = [*operands(), None, False, True, None]
    if wrong == "weight":
        given[5] = given[5][:-1]
    elif wrong == "bias":
        given[6] = given[6][None]
    elif wrong == "heads":
        given[4] = 3
    elif wrong == "mask":
        given[9], given[12] = torch.ones(ROWS, ROWS + 1, dtype=torch.bool), 0
    elif wrong == "keys":
        given[1:3] = operands(keys=ROWS + 2)[1:3]
    elif wrong == "type":
        given[5] = given[5].double()
    errors = []
    for device in ("cpu", "lazuli"):
        moved = [x.to(device) if isinstance(x, torch.Tensor) else x for x in given]
        with pytest.raises(RuntimeError) as raised:
            torch._native_multi_head_attention(*moved)[0].cpu()
        errors.append(str(raised.value).splitlines()[0])
    assert errors[0] == errors[1]


def test_padding_with_nested_tensors():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(BATCH, ROWS, WIDTH), masks()["keys"]["src_key_padding_mask"]
    assert_same(lambda m, x, padding: m(x, src_key_padding_mask=padding), encoder, x, padding)
