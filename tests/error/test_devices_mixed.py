"""Tensors of the host beside tensors of the device: an error that names both, at the line."""

import pytest
import torch

F = torch.nn.functional

MIXES = {
    "add": lambda a, b: a + b,
    "add_": lambda a, b: a.add_(b),
    "mul": lambda a, b: a * b,
    "mm": lambda a, b: a @ b,
    "addmm": lambda a, b: torch.addmm(a, a, b),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "cat": lambda a, b: torch.cat([a, b]),
    "linear": lambda a, b: F.linear(a, b),
    "layer_norm": lambda a, b: F.layer_norm(a, (3,), b[0]),
    "mse_loss": lambda a, b: F.mse_loss(a, b),
    "out": lambda a, b: torch.exp(a, out=b),
    "conv2d": lambda a, b: F.conv2d(a[None, None], b[None, None]),
    "embedding": lambda a, b: F.embedding(torch.zeros(2, dtype=torch.int64, device=a.device), b),
    "gather": lambda a, b: a.gather(0, torch.zeros(1, 1, dtype=torch.int64, device=b.device)),
    "index_add": lambda a, b: a.index_add(0, torch.zeros(3, dtype=torch.int64, device=a.device), b),
    "sort external": lambda a, b: torch.cdist(a, b),
    "addcmul": lambda a, b: torch.addcmul(a, b, a),
    "lerp": lambda a, b: torch.lerp(a, b, 0.5),
}


@pytest.mark.parametrize("order", ["device first", "host first"])
@pytest.mark.parametrize("name", MIXES)
def test_mix(name, order):
    host, device = torch.randn(3, 3), torch.randn(3, 3).to("lazuli")
    pair = (device, host) if order == "device first" else (host, device)
    with pytest.raises(RuntimeError) as error:
        MIXES[name](*pair)
    text = str(error.value)
    assert "device" in text
    assert "internal" not in text.lower()
    assert "bug" not in text


def test_the_message_names_both_devices():
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device"
    ) as error:
        torch.ones(3, device="lazuli") + torch.ones(3)
    assert "lazuli:0" in str(error.value)
    assert "cpu" in str(error.value)


def test_a_module_left_on_the_host():
    with pytest.raises(RuntimeError, match="same device"):
        torch.nn.Linear(3, 2)(torch.ones(1, 3, device="lazuli"))


def test_what_may_mix():
    x = torch.ones(3).to("lazuli")
    assert (x + torch.tensor(2.0)).tolist() == [3, 3, 3]
    assert (torch.tensor(2.0) * x).tolist() == [2, 2, 2]
    assert x[torch.tensor([0, 1])].tolist() == [1, 1]
    assert x.copy_(torch.zeros(3)).tolist() == [0, 0, 0]
