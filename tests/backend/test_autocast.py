"""Autocast to bfloat16: which dtype each op gives, and training under it."""

import subprocess
import sys

import pytest
import torch
from differential import assert_same, normal

F = torch.nn.functional

OPS = {
    "matmul": lambda x: x @ x,
    "linear": lambda x: F.linear(x, x),
    "linear with bias": lambda x: F.linear(x, x, x[0]),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None, :3, :3]),
    "softmax": lambda x: F.softmax(x @ x, -1),
    "layer_norm": lambda x: F.layer_norm(x @ x, (4,)),
    "sum": lambda x: (x @ x).sum(),
    "add": lambda x: x @ x + x,
    "gelu": lambda x: F.gelu(x @ x),
    "exp": lambda x: (x @ x).exp(),
    "cat": lambda x: torch.cat([x @ x, x]),
    "mse_loss": lambda x: F.mse_loss(x @ x, x),
    "cross_entropy": lambda x: F.cross_entropy(x @ x, torch.arange(4, device=x.device)),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.expand(1, 2, 4, 4)] * 3),
    "pow": lambda x: (x @ x) ** 2,
}


@pytest.mark.parametrize("op", OPS)
def test_dtypes_and_values(op):
    # The host's own cast lists differ from an accelerator's, so dtypes are compared to those.
    x = torch.randn(4, 4)
    with torch.autocast("lazuli", dtype=torch.bfloat16):
        y = OPS[op](x.to("lazuli"))
    assert y.dtype == CUDA_DTYPES.get(op, torch.bfloat16)
    torch.testing.assert_close(y.float().cpu(), OPS[op](x), rtol=5e-2, atol=1e-1)


CUDA_DTYPES = {
    name: torch.float32
    for name in (
        "softmax",
        "layer_norm",
        "sum",
        "add",
        "exp",
        "cat",
        "mse_loss",
        "cross_entropy",
        "pow",
    )
}


def cast_ops(key):
    """In a process of its own: other libraries, such as torchvision, have operators there too."""
    ask = f"""
import torch
torch.lazuli.synchronize()
has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
print(*(n for n in torch._C._dispatch_get_all_op_names() if has_kernel(n, "{key}")))
"""
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_lists_are_those_of_cuda():
    ours, cuda = cast_ops("AutocastPrivateUse1"), cast_ops("AutocastCUDA")
    assert ours - cuda == {"aten::cross_entropy_loss"}
    # The latter only raises; the others are operators of cuDNN.
    cudnn = {name for name in cuda if "cudnn" in name}
    assert cuda - ours - cudnn == {"aten::binary_cross_entropy"}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("target", ["classes", "probabilities"])
def test_cross_entropy_is_computed_in_float32(target, smoothing, reduction):
    def compute(device, dtype, autocast):
        torch.manual_seed(0)
        x = torch.randn(64, 10).bfloat16().to(dtype).to(device).requires_grad_()
        y = torch.randint(10, (64,)) if target == "classes" else torch.rand(64, 10).softmax(-1)
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(x, y.to(device), reduction=reduction, label_smoothing=smoothing)
        loss.sum().backward()
        assert loss.dtype == torch.float32
        return loss.detach().cpu(), x.grad.float().cpu()

    loss, gradient = compute("lazuli", torch.bfloat16, True)
    exact_loss, exact_gradient = compute("cpu", torch.float32, False)
    torch.testing.assert_close(loss, exact_loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient, exact_gradient.bfloat16().float(), rtol=2**-8, atol=1e-6)


def test_nested_and_disabled():
    x = torch.randn(4, 4).to("lazuli")
    with torch.autocast("lazuli", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("lazuli")
        with torch.autocast("lazuli", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
    assert (x @ x).dtype == torch.float32
    assert not torch.is_autocast_enabled("lazuli")


def test_the_default_dtype_is_bfloat16():
    assert torch.get_autocast_dtype("lazuli") == torch.bfloat16
    with torch.autocast("lazuli"):
        assert (torch.ones(2, 2, device="lazuli") @ torch.ones(2, 2, device="lazuli")).dtype == (
            torch.bfloat16
        )


def test_training_follows_float32():
    def losses(autocast):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3)
        ).to("lazuli")
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        x = torch.randn(32, 8).to("lazuli")
        y = torch.randint(0, 3, (32,)).to("lazuli")
        seen = []
        for _ in range(20):
            optimizer.zero_grad()
            with torch.autocast("lazuli", dtype=torch.bfloat16, enabled=autocast):
                loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        assert all(p.dtype == p.grad.dtype == torch.float32 for p in net.parameters())
        return torch.tensor(seen)

    torch.testing.assert_close(losses(True), losses(False), rtol=3e-2, atol=3e-2)


def test_a_weight_is_cast_once():
    w = torch.nn.Parameter(torch.randn(4, 4).to("lazuli"))
    x = torch.randn(4, 4).to("lazuli")
    with torch.autocast("lazuli"):
        (x @ w + x @ w).float().sum().backward()
    assert w.grad.dtype == torch.float32
    assert torch.isfinite(w.grad).all()


def test_custom_functions_of_amp():
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="lazuli", cast_inputs=torch.float32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.amp.custom_bwd(device_type="lazuli")
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = torch.randn(3, 3).to("lazuli").requires_grad_()
    with torch.autocast("lazuli"):
        y = Square.apply(x @ x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.dtype == torch.float32


def test_with_autocast_of_the_host():
    def compute(device):
        x = normal(4, 4, device="cpu")
        with torch.autocast(device, dtype=torch.bfloat16), torch.autocast("cpu"):
            return x @ x

    assert_same(compute)
