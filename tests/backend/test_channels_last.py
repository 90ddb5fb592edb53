"""Channels-last: numbers and strides of what convolutional networks are made of."""

import pytest
import torch
from differential import assert_same, normal

F = torch.nn.functional


def image(device, *shape, grad=False):
    x = normal(*(shape or (2, 4, 6, 6)), device=device)
    return x.contiguous(memory_format=torch.channels_last).requires_grad_(grad)


OPS = {
    "relu": lambda x: F.relu(x),
    "add": lambda x: x + x,
    "scalar": lambda x: x * 2 + 1,
    "bias": lambda x: x + torch.ones(1, 4, 1, 1, device=x.device),
    "with contiguous": lambda x: x + torch.ones(2, 4, 6, 6, device=x.device),
    "contiguous first": lambda x: torch.ones(2, 4, 6, 6, device=x.device) + x,
    "sum of channels": lambda x: x.sum(1),
    "mean of pixels": lambda x: x.mean((2, 3), keepdim=True),
    "cat": lambda x: torch.cat([x, x], 1),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, padding=1),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 1),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "pad": lambda x: F.pad(x, (1, 1, 2, 0)),
    "softmax": lambda x: x.softmax(1),
    "flatten": lambda x: x.flatten(1),
    "chunk": lambda x: x.chunk(2, 1)[1],
    "clone": lambda x: x.clone(),
    "empty_like": lambda x: torch.zeros_like(x),
    "to contiguous": lambda x: x.contiguous(),
    "dtype": lambda x: x.to(torch.bfloat16).float(),
    "comparison": lambda x: x > 0,
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("op", OPS)
def test_forward(op):
    assert_same(lambda device: OPS[op](image(device)))


@pytest.mark.parametrize("op", [n for n in OPS if n not in ("comparison", "empty_like")])
def test_backward(op):
    def differentiate(device):
        x = image(device, grad=True)
        (OPS[op](x) ** 2).sum().backward()
        return x.grad

    assert_same(differentiate, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("of_input", [True, False])
@pytest.mark.parametrize("of_weight", [True, False])
def test_convolution(of_input, of_weight):
    def train(device):
        torch.manual_seed(0)
        conv = torch.nn.Conv2d(4, 8, 3, padding=1).to(device)
        if of_weight:
            conv.to(memory_format=torch.channels_last)
        x = normal(2, 4, 6, 6, device=device)
        x = x.contiguous(memory_format=torch.channels_last) if of_input else x
        x.requires_grad_()
        y = conv(x)
        (y**2).sum().backward()
        return y, x.grad, conv.weight.grad, conv.bias.grad

    assert_same(train, rtol=1e-4, atol=1e-4)


def test_a_small_network():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, bias=False),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 8, 3, groups=4),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(8, 2),
        ).to(device, memory_format=torch.channels_last)
        y = net(image(device, 2, 3, 10, 10))
        y.pow(2).mean().backward()
        return y, [p.grad for p in net.parameters()], net[1].running_mean, net[1].running_var

    assert_same(train, rtol=1e-4, atol=1e-5)


def test_three_dimensions():
    def compute(device):
        x = normal(2, 3, 4, 4, 4, device=device).contiguous(memory_format=torch.channels_last_3d)
        conv = torch.nn.Conv3d(3, 2, 3).to(device)
        with torch.no_grad():
            conv.weight.fill_(0.1), conv.bias.fill_(1)
            return x + 1, conv(x)

    assert_same(compute)
