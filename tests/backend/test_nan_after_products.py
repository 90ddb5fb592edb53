"""What follows a product or a convolution sees its nan and infinities, wherever it is computed."""

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, normal
from torch import nn

SPECIAL = [float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 0.0, -0.0, 1.0, -1.0]
# Small results and large ones: who does the relu depends on that.
ROWS = (9, 900)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def special(rows, columns, device, dtype=torch.float32):
    """Rows that a product with ones in its first row passes on."""
    x = torch.zeros(rows, columns)
    x[:, 0] = torch.tensor(SPECIAL).repeat(rows // len(SPECIAL))
    return x.to(dtype).to(device)


def passing_on(columns, device, dtype=torch.float32):
    w = torch.zeros(columns, 256)
    w[0] = 1
    return w.to(dtype).to(device)


ENDS = {
    "relu": lambda y, r: F.relu(y),
    "relu of a sum": lambda y, r: F.relu(y + r),
    "relu of a product": lambda y, r: F.relu(y * 0.5),
    "sum with a relu": lambda y, r: F.relu(y) + r,
    "two": lambda y, r: F.relu(y + 1) * r,
    "relu6": lambda y, r: F.relu6(y),
    "hardtanh of a sum": lambda y, r: F.hardtanh(y + r, -0.5, 2.5),
    "leaky relu without a slope": lambda y, r: F.leaky_relu(y, 0.0),
    "leaky relu": lambda y, r: F.leaky_relu(y * 0.5, 0.2) + r,
    "silu": lambda y, r: F.silu(y) * 0.5,
    "sigmoid of a sum": lambda y, r: torch.sigmoid(y + r),
    "tanh": lambda y, r: torch.tanh(y),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("end", ENDS)
def test_product(device, threads, end, rows, dtype):
    def run(device):
        y = special(rows, 32, device, dtype) @ passing_on(32, device, dtype)
        return ENDS[end](y, torch.full((rows, 256), 2.0).to(dtype).to(device))

    assert_same(run)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("size", [(3, 3), (30, 30)])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("channels_last", [False, True], ids=["", "channels-last"])
def test_convolution(device, threads, end, size, kernel, channels_last):
    def run(device):
        x = torch.zeros(2, 16, *size)
        count = size[0] * size[1]
        x[:, 0] = torch.tensor(SPECIAL).repeat(count // len(SPECIAL)).view(size)
        w = torch.zeros(96, 16, kernel, kernel)
        w[:, 0, kernel // 2, kernel // 2] = 1
        # A zero of the kernel beside an infinity is nan: only the middle of the kernel is not zero.
        x = x if kernel == 1 else x.nan_to_num(1.0, 1.0, 1.0).clamp(-1, 1)
        x[:, 0, 1, 1] = float("nan")
        x = x.to(memory_format=torch.channels_last) if channels_last else x
        y = F.conv2d(x.to(device), w.to(device), padding=kernel // 2)
        return ENDS[end](y, torch.full(y.shape, 2.0).to(device))

    assert_same(run, ignore=("stride",) if channels_last else ())


def test_packed_weights(device, threads):
    """Inference again and again, in which numbers go wrong and right again."""

    def run(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU())
        net = net.to(device).eval()
        results = []
        with torch.inference_mode():
            for step in range(8):
                x = normal(400, 32, device=device)
                if step in (3, 5):
                    x[7, 3] = float("nan")
                results.append(net(x).clone())
        return results

    assert_same(run)


def test_a_loss_that_is_nan_is_seen(device):
    def run(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU())
        net = net.to(device)
        with torch.no_grad():
            net[0].weight[5] = float("nan")
        net(normal(2, 3, 40, 40, device=device)).square().mean().backward()
        return [p.grad.isnan().any() for p in net.parameters()]

    assert_same(run)
