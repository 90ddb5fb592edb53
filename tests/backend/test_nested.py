"""Nested tensors of the strided layout: of the device, by way of torch's kernels for the host."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def nested(device, grad=False):
    parts = [torch.randn(2, 4), torch.randn(5, 4), torch.randn(1, 4)]
    return torch.nested.nested_tensor(parts, device=device, requires_grad=grad)


def test_they_are_the_devices():
    def compute(device):
        there = nested("cpu").to(device)
        back = there.cpu()
        return [
            there.is_nested,
            there.device.type == device,
            back.device.type == "cpu",
            list(there.unbind()),
            list(back.unbind()),
            list(there.to(torch.float64).unbind()),
            there.size(0),
            there.size(2),
        ]

    assert_same(compute)


def test_views_share_memory():
    def compute(device):
        x = nested(device)
        before = x._version
        x.unbind()[1].mul_(2)
        x.transpose(1, 2).unbind()[0].add_(1)
        x[2].zero_()
        return x._version > before, x.values(), x.to_padded_tensor(-1.0)

    assert_same(compute)


def test_arithmetic_and_in_place():
    def compute(device):
        x, y = nested(device), nested(device)
        x.add_(y)
        z = x * y + torch.nn.functional.gelu(x) - y.clone().zero_()
        return list(z.unbind()), list(torch.softmax(z, -1).unbind())

    assert_same(compute)


def test_gradients():
    def compute(device):
        parts = [normal(2, 4, device=device, grad=True), normal(5, 4, device=device, grad=True)]
        weight = normal(3, 4, device=device, grad=True)
        x = torch.nested.as_nested_tensor(parts)
        y = torch.nn.functional.linear(x, weight).to_padded_tensor(0.0)
        y.square().sum().backward()
        return y, weight.grad, [p.grad for p in parts]

    assert_same(compute, ignore=["offset"])


def test_gradients_of_a_leaf():
    def compute(device):
        x = nested(device, grad=True)
        x.to_padded_tensor(0.0).square().sum().backward()
        return x.grad.device.type == device, list(x.grad.unbind())

    assert_same(compute)


def test_what_cpu_refuses():
    assert_same_error(lambda device: nested(device, grad=True).sum())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_encoders_with_masks(mode):
    """In eval mode, torch's encoder makes a nested tensor of what a mask leaves."""

    def compute(device):
        layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        encoder = torch.nn.TransformerEncoder(layer, 2).eval().to(device)
        x = normal(3, 5, 16, device=device)
        mask = torch.zeros(3, 5, dtype=torch.bool)
        mask[0, 3:] = mask[2, 4:] = True
        with mode():
            return encoder(x, src_key_padding_mask=mask.to(device))

    assert_same(compute)


def test_what_does_not_lie_row_by_row():
    """It reaches the host's kernels as a copy that does; on the cpu the copy is asked for."""

    def compute(device):
        x = nested(device).transpose(1, 2)
        y = x.contiguous() if device == "cpu" else x
        results = x * 2, y.sin(), y.cpu(), y.to(torch.float64)
        return [list(t.unbind()) for t in results]

    assert_same(compute, ignore=["stride"])


def test_attention_of_the_jagged_layout():
    def attend(device):
        lengths = torch.tensor([0, 2, 7, 8]).to(device)
        values = [normal(8, 2, 4, device=device, grad=True) for _ in range(3)]
        q, k, v = (
            torch.nested.nested_tensor_from_jagged(x, lengths).transpose(1, 2) for x in values
        )
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        y.values().square().sum().backward()
        return y.transpose(1, 2).values(), [x.grad for x in values]

    assert_same(attend, ignore=["stride"], rtol=1e-5, atol=1e-5)
