"""backend/torch_internals/packed_linear.h, which takes out what a quantized layer multiplies"""

import torch


def test_products_are_exact_before_they_become_floats():
    torch.manual_seed(0)
    scales, depth = torch.rand(24) / 40 + 1e-3, 300
    weight = torch.quantize_per_channel(
        torch.randn(24, depth), scales.double(), torch.zeros(24, dtype=torch.long), 0, torch.qint8
    )
    packed = torch.ops.quantized.linear_prepack(weight, None)
    x = torch.randn(5, depth)
    scale, zero = torch._choose_qparams_per_tensor(x, True)
    rows = torch.quantize_per_tensor(x, scale, zero, torch.quint8).int_repr().long() - zero
    sums = (rows @ weight.int_repr().long().t()).float()
    expected = sums * (
        torch.tensor(scale, dtype=torch.float32) * weight.q_per_channel_scales().float()
    )
    y = torch.ops.quantized.linear_dynamic(x, packed, True)
    assert torch.equal(y, expected), "linear_dynamic no longer rounds as the row of Lazuli does"


def test_a_bias_is_handed_out_and_not_copied():
    bias = torch.randn(4)
    weight = torch.quantize_per_tensor(torch.randn(4, 8), 0.1, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight, bias)
    assert torch.ops.quantized.linear_unpack(packed)[1].data_ptr() == bias.data_ptr()
