"""Steps of shapes that never came before: after some of them they run in parts, whose plans serve
other sizes (jit/parts).
"""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

STEPS = 16


@pytest.fixture
def counted() -> Callable[[], dict]:
    torch.lazuli.reset_metrics()
    return torch.lazuli.metrics


def attention(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Attention over a cache that grows, and a product, with a value read in each step."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, 64).to(dtype).to(device) for _ in range(3)]
    x = torch.randn(2, 4, 1, 64).to(dtype).to(device)
    keys = torch.randn(2, 4, 40, 64).to(dtype).to(device)
    out = []
    with torch.no_grad():
        for _ in range(STEPS):
            for layer in layers:
                keys = torch.cat([keys, layer(x).tanh()], 2)
                x = x + functional.scaled_dot_product_attention(layer(x), keys, keys)
            out.append(x.float().sum().cpu())
            x = functional.layer_norm(x, (64,))
    return [*out, keys.cpu(), x.cpu()]


def training(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Texts of other lengths in each step, with masks of numbers, indices and an optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 32), nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64))
    head = nn.Linear(64, 50)
    model, head = model.to(dtype).to(device), head.to(dtype).to(device)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
    out = []
    for step in range(STEPS):
        ids = torch.randint(0, 50, (3, 9 + 5 * step)).to(device)
        y = model(ids)
        y = (y * (ids > step).unsqueeze(-1)).cumsum(1) / (
            1 + torch.arange(ids.shape[1], device=device)[:, None]
        )
        loss = functional.cross_entropy(head(y.flatten(0, 1)), ids.roll(-1, 1).flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        out.append(loss.detach().float().cpu())
    return [*out, *(p.detach().cpu() for p in head.parameters())]


def windows(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Rows and pieces that begin anywhere in their memory, aligned and not."""
    torch.manual_seed(0)
    table = torch.randn(64, 37).to(dtype).to(device)
    weight = torch.randn(37, 37).to(dtype).to(device)
    out = []
    with torch.no_grad():
        for step in range(STEPS):
            pieces = [table[i : i + 2 + step] @ weight for i in range(step % 3, 12, 3)]
            y = torch.cat(pieces).softmax(-1)
            rows = y.unbind(0)
            for i, row in enumerate(rows[: 6 + step]):
                y = y + row * (i + 1)
            out.append(y.float().mean(0).cpu())
            table = table.roll(1, 0)
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("program", [attention, training, windows])
def test_steps_of_new_shapes(program: Callable, dtype: torch.dtype, counted: Callable[[], dict]):
    with torch.lazuli.config.patch(tiers="parts"):
        ours = program("lazuli", dtype)
    assert counted()["traces_in_parts"] > 0
    if program is not windows:  # of whose parts no two have the same ops
        assert counted()["parts_resized"] > 0
    eager = program("cuda", dtype)
    tolerance = 2e-4 if dtype == torch.float32 else 6e-2
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_a_wrong_index_in_a_part_names_its_line(counted: Callable[[], dict]):
    table = torch.randn(10, 8).to("lazuli")
    for n in range(20):
        table[torch.arange(n % 9 + 1, device="lazuli")].sum(0).mul(n).sum().item()
        torch.cat([table] * (n + 1)).square().sum().item()
    with pytest.raises(RuntimeError, match=r"test_gpu_new_shapes.*out of bounds"):
        table[torch.arange(11, device="lazuli") + 0].sum(0).sum().item()
    assert torch.isfinite(table.sum()).item()


IN_A_NEW_PROCESS = """
import torch

weight = torch.randn(8, 8, device="lazuli")

def compute(steps, width):
    x = torch.ones(width, 8, device="lazuli")
    for _ in range(steps):
        x = (x @ weight).tanh()
    return x.sum().item()

def in_parts():
    return torch.lazuli.metrics()["traces_in_parts"]

compute(400, 3)
for n in range(4):
    compute(2, 10 + n)
assert in_parts() == 0, "few are planned whole"
for n in range(200):
    compute(2, 20 + n)
assert in_parts() > 0, "small ones, after a large one"
before = in_parts()
for _ in range(20):
    compute(2, 5)
assert in_parts() < before + 10, "what comes again is planned whole"
print("done")
"""


def test_many_new_traces_in_a_row_run_in_parts():
    script = [sys.executable, "-c", IN_A_NEW_PROCESS]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=50, check=False)
    assert ran.stdout == "done\n", ran.stderr
