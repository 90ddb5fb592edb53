"""The report on a GPU: what launches take there, and the share of bandwidth that they reach."""

import pytest
import torch
from torch_lazuli.report.data import STEP_KINDS

ELEMENTS = 64 << 20


def test_a_kernel_that_streams_reaches_most_of_the_bandwidth():
    x = torch.randn(ELEMENTS, device="lazuli")
    with torch.lazuli.config.patch(tiers="plans"), torch.lazuli.report() as report:
        for _ in range(9):
            y = x * 2 + 1
            torch.lazuli.synchronize()
            del y
    data = report.data
    assert data["device"] == "cuda:0"
    executable = max(data["executables"], key=lambda e: sum(e["count"]))
    kernel = executable["steps"]["kind"].index(STEP_KINDS.index("kernel"))
    count, total = (executable[f"device_{name}"][kernel] for name in ("count", "total"))
    assert executable["steps"]["bytes"][kernel] == 2 * 4 * ELEMENTS
    assert 1 < count < executable["count"][kernel]
    reached = executable["steps"]["bytes"][kernel] / (total / count / 1e6)
    assert data["bandwidth"] / 10 < reached < 10 * data["bandwidth"]  # others use the GPU, too


@pytest.mark.parametrize("steps", [1, 5])
def test_all_launches_that_were_measured_have_a_time(steps):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    model = model.to("lazuli")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(32, 64, device="lazuli")
    with torch.lazuli.report() as report:
        for _ in range(steps):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    measured = 0
    for executable in report.data["executables"]:
        for count, on_device, total in zip(
            executable["count"], executable["device_count"], executable["device_total"], strict=True
        ):
            assert bool(count) == bool(on_device)
            assert on_device <= count
            assert bool(on_device) == (total > 0)
            measured += on_device
    assert measured > 0
