"""backend/python/torch_lazuli/torch_internals/losses.py"""

import pytest
import torch
from torch.nn import functional as F

Options = getattr(torch.nn, "LinearCrossEntropyOptions", None)
pytestmark = pytest.mark.skipif(Options is None, reason="torch has no such loss before 2.13")


def chosen(device_type, dtype):
    adjusted = Options()._adjust(64, 8, 32, dtype, device=torch.device(device_type))
    return adjusted.acc_policy, adjusted.acc_dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sums_are_kept_as_the_cpu_keeps_them(device, dtype):
    torch.ones(1, device=device)  # torch's functions are replaced at the first use
    accurate = ("accurate", torch.float32)
    assert dtype is torch.float32 or chosen("cpu", dtype) == accurate, (
        "LinearCrossEntropyOptions._adjust must choose by `device`, by that name"
    )
    assert chosen(device, dtype) == chosen("cpu", dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_are_as_near_as_eagers(device, dtype):
    """A sum of 4096 gradients, of which 16 bits keep half of the digits."""
    torch.manual_seed(0)
    x, weight = torch.randn(4096, 8).to(dtype), torch.randn(32, 8).to(dtype)
    target = torch.randint(32, (4096,))

    def gradient(device, dtype):
        w = weight.to(device, dtype).detach().requires_grad_()
        F.linear_cross_entropy(
            x.to(device, dtype), w, target.to(device), options=Options(), reduction="sum"
        ).backward()
        return w.grad.cpu().double()

    exact = gradient("cpu", torch.float64)
    errors = [(gradient(d, dtype) - exact).abs().max() for d in ("cpu", device)]
    assert errors[1] <= 2 * errors[0]
