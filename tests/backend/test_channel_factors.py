"""Convolutions whose result is scaled and shifted by channel; the scale may go into the weights."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("planned_at_once")


def normalized(channels):
    norm = nn.BatchNorm2d(channels).eval()
    with torch.no_grad():
        for t in (norm.weight, norm.bias, norm.running_mean):
            t.copy_(torch.randn(channels))
        norm.running_var.uniform_(0.5, 2)
    return norm


def block(convolution, activation=nn.ReLU):
    return nn.Sequential(convolution, normalized(convolution.out_channels), activation())


BLOCKS = {
    "3 x 3": lambda: block(nn.Conv2d(8, 24, 3, padding=1, bias=False)),
    "with a bias": lambda: block(nn.Conv2d(8, 24, 3, padding=1)),
    "1 x 1": lambda: block(nn.Conv2d(8, 40, 1, bias=False), nn.Hardswish),
    "depthwise": lambda: block(nn.Conv2d(8, 8, 5, groups=8, bias=False), nn.Hardswish),
    "groups": lambda: block(nn.Conv2d(8, 24, 3, stride=2, groups=4, bias=False), nn.SiLU),
    "transposed": lambda: block(nn.ConvTranspose2d(8, 16, 3, stride=2, bias=False)),
    "one channel": lambda: block(nn.Conv2d(8, 1, 3, bias=False), nn.Identity),
}


def assert_same(net, x, device):
    """Three runs: what is kept from run to run is there in the third."""
    there = net.to(device)
    with torch.no_grad():
        results = [there(x.to(device)).cpu() for _ in range(3)]
        expected = net.to("cpu")(x)
    for result in results:
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_block(name, layout, device):
    x = torch.randn(2, 8, 12, 11).to(memory_format=layout)
    assert_same(BLOCKS[name](), x, device)


def test_double(device):
    assert_same(BLOCKS["3 x 3"]().double(), torch.randn(2, 8, 12, 11).double(), device)


def test_large_results_with_a_residual(device):

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = block(nn.Conv2d(16, 16, 3, padding=1)), nn.Conv2d(16, 16, 1)
            self.norm = normalized(16)

        def forward(self, x):
            y = self.first(x)
            return F.relu(self.norm(self.second(y)) + y)

    assert_same(Residual(), torch.randn(3, 16, 40, 41), device)


@pytest.mark.parametrize("what", ["statistics", "weights", "both"])
def test_what_changes_between_runs_counts(what, device):
    net, x = block(nn.Conv2d(8, 24, 3, padding=1, bias=False)), torch.randn(2, 8, 9, 9)
    there, y = block(nn.Conv2d(8, 24, 3, padding=1, bias=False)).to(device), x.to(device)
    there.load_state_dict(net.state_dict())
    with torch.no_grad():
        for turn in range(6):
            torch.testing.assert_close(there(y).cpu(), net(x), rtol=1e-4, atol=1e-4)
            if turn % 3 != 2:  # so that something is kept in between
                continue
            for model in (net, there):
                if what != "weights":
                    model[1].running_var.mul_(1.5)
                if what != "statistics":
                    model[0].weight.mul_(-0.5)


def test_training_changes_statistics(device):
    net, x = BLOCKS["3 x 3"](), torch.randn(4, 8, 9, 9)
    there = BLOCKS["3 x 3"]().to(device)
    there.load_state_dict(net.state_dict())
    with torch.no_grad():
        for _ in range(3):
            for training in (True, False):
                expected, actual = net.train(training)(x), there.train(training)(x.to(device))
                torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_numbers_that_are_none(device):
    net = block(nn.Conv2d(8, 24, 3, padding=1, bias=False))
    with torch.no_grad():
        net[1].weight[3] = torch.nan
        net[1].bias[5] = -torch.inf
        net[1].bias[6] = torch.nan
    assert_same(net, torch.randn(2, 8, 12, 11).abs() + 0.1, device)


def test_turned_chain(device):
    """As in a network that normalizes with channels last: views turn the image and back."""

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.narrow = nn.Conv2d(8, 32, 1), nn.Conv2d(32, 8, 1)
            self.scale = nn.Parameter(torch.randn(32))

        def forward(self, x):
            y = F.gelu(self.wide(x).permute(0, 2, 3, 1)) * self.scale
            return self.narrow(y.permute(0, 3, 1, 2))

    for size in ((2, 8, 6, 7), (2, 8, 32, 32), (32, 8, 32, 32)):
        assert_same(Turned(), torch.randn(size), device)


@pytest.mark.parametrize("scales", [False, True])
def test_turned_and_reshaped(scales, device):
    """As where points of an image become a sequence."""

    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(8, 12, 3, padding=1)
            self.scale = nn.Parameter(torch.randn(12))

        def forward(self, x):
            y = self.convolution(x).permute(0, 2, 3, 1)
            y = y * self.scale if scales else y
            return torch.relu(y.reshape(x.shape[0], -1, 12))

    assert_same(Sequence(), torch.randn(2, 8, 6, 7), device)


def test_several_factors(device):

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(8, 24, 3, padding=1, bias=False)
            self.scales = nn.Parameter(torch.randn(3, 24, 1, 1))
            self.norm = normalized(24)

        def forward(self, x):
            y = self.convolution(x) * self.scales[0]
            return self.norm(y * self.scales[1]) + self.norm(self.convolution(x) * self.scales[2])

    assert_same(Scaled(), torch.randn(2, 8, 12, 11), device)


def test_one_convolution_behind_many_norms(device):

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(8, 24, 3, bias=False)
            self.norms = nn.ModuleList(normalized(24) for _ in range(6))

        def forward(self, x):
            return sum(norm(self.convolution(x * (i + 1))) for i, norm in enumerate(self.norms))

    assert_same(Shared(), torch.randn(2, 8, 12, 11), device)


def test_a_scale_of_each_sample(device):
    """Of one sample it looks like one of each channel."""
    convolution, gate = nn.Conv2d(8, 24, 3, padding=1), nn.Linear(5, 24)
    there = [m.to(device) for m in (nn.Conv2d(8, 24, 3, padding=1), nn.Linear(5, 24))]
    for a, b in zip(there, (convolution, gate), strict=True):
        a.load_state_dict(b.state_dict())
    with torch.no_grad():
        for _ in range(5):
            x, style = torch.randn(1, 8, 9, 9), torch.randn(1, 5)
            expected = convolution(x) * gate(style)[:, :, None, None]
            actual = there[0](x.to(device)) * there[1](style.to(device))[:, :, None, None]
            torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "order", [(0, 2, 3, 1), (0, 3, 2, 1), (0, 1, 3, 2), (3, 0, 1, 2), (1, 0, 2, 3)]
)
def test_other_orders(order, device):

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv2d(6, 6, 3, padding=1)

        def forward(self, x):
            return F.relu(self.convolution(x).permute(order) + 1.5)

    assert_same(Turned(), torch.randn(6, 6, 6, 6), device)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pooling_whose_positions_nobody_reads(layout, device):
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.MaxPool2d(3, 2, 1), nn.Conv2d(16, 4, 1))
    x = torch.randn(2, 3, 17, 18).to(memory_format=layout)
    x[0, 0, 3, 3] = torch.nan
    assert_same(net, x, device)
    values, positions = F.max_pool2d(x.to(device), 3, 2, 1, return_indices=True)
    expected = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    torch.testing.assert_close(values.cpu(), expected[0], equal_nan=True)
    assert torch.equal(positions.cpu(), expected[1])
