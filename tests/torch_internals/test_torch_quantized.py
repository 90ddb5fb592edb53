"""backend/python/torch_lazuli/torch_internals/quantized.py"""

import torch


def test_the_device_must_be_said(device):
    q = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    torch.ones(1, device=device)  # torch's functions are replaced at the first use
    original = torch.empty_quantized.__wrapped__
    assert original([3], q, device="cpu").device.type == "cpu", (
        "torch.empty_quantized must take a `device`, by that name"
    )
    made = torch.empty_quantized([3], q.to(device))
    assert made.device.type == device
