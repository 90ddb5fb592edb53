"""How many kernels a trace becomes: guards against fusion getting worse unseen."""

import pytest
import torch

F = torch.nn.functional


def kernels(counters, function, *inputs):
    """Kernels that a fresh trace is made of."""
    inputs = [x.to("lazuli") for x in inputs]
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    result = function(*inputs)
    torch.lazuli.synchronize()
    assert result is not None
    metrics = counters()
    return metrics["kernels_compiled"] + metrics["kernels_reused"]


X = torch.randn(16, 24)


@pytest.mark.parametrize(
    ("name", "function", "most"),
    [
        ("chain", lambda x: ((x * 2 + 1).sin().exp() - x).sigmoid(), 1),
        ("broadcast", lambda x: x * x[0] + x[:, :1], 1),
        ("several results", lambda x: (x + 1, x * 2, (x + 1) * (x * 2)), 1),
        ("views", lambda x: x[1:, ::2] * 2 + x[:-1, 1::2], 1),
        ("sum with a prologue", lambda x: (x * x).sum(1), 1),
        ("softmax", lambda x: x.softmax(-1), 1),
        ("log_softmax", lambda x: x.log_softmax(-1), 1),
        ("layer_norm", lambda x: F.layer_norm(x, (24,)), 1),
        ("rms_norm", lambda x: F.rms_norm(x, (24,)), 1),
        ("gelu of layer_norm", lambda x: F.gelu(F.layer_norm(x, (24,))), 1),
        ("mse", lambda x: F.mse_loss(x, x * 2), 2),
        ("conversion", lambda x: x.bfloat16().float() * 2, 1),
        ("mask", lambda x: torch.where(x > 0, x, 0.1 * x).masked_fill(x > 1, 1), 1),
        ("view only", lambda x: x.t()[1:], 0),
    ],
)
def test_number_of_kernels(counters, name, function, most):
    assert kernels(counters, function, X) <= most


def test_the_same_results_without_fusion():
    def compute():
        x = X.to("lazuli")
        return F.layer_norm((x * 2).softmax(-1) + x, (24,)).cpu()

    fused = compute()
    with torch.lazuli.config.patch(fusion=False):
        plain = compute()
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-6)


def test_an_optimizer_step_is_few_kernels(counters):
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)]).to("lazuli")
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        net(torch.ones(4, 8, device="lazuli")).sum().backward()
        optimizer.step()

    step(), step()
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    step()
    torch.lazuli.synchronize()
    assert counters()["external_calls"] == {}
