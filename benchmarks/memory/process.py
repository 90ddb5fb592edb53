"""What one model or form of attention needs on one arm, in this process."""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks import harness, resident, turns
from benchmarks.memory import forms
from benchmarks.models import steps

STEPS = 10
STEADY = 3  # the last ones
MIB = 2**20


def _attention(form: str, length: int, mode: str, arm: str) -> Callable[[], torch.Tensor]:
    torch.manual_seed(0)
    device = harness.device_of(arm)
    model = nn.Sequential(*(forms.Layer(forms.FORMS[form]()) for _ in range(2))).to(device)
    x = torch.randn(1, length, forms.HEADS * forms.DEPTH).to(device)
    if mode == "infer":
        return torch.no_grad()(lambda: model(x).sum())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def train() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train


def measure(name: str, mode: str, arm: str) -> dict[str, float]:
    """MiB: of the process before the first step, and what steps need beyond that.

    `name` is a model, or a form of attention and its length.
    """
    torch.ones(1, device=harness.device_of(arm)).add(1).cpu()
    form, _, length = name.partition(" ")
    if length:
        step = _attention(form, int(length), mode, arm)
    else:
        step = steps.make_step(name, mode, arm, steps.Conditions())
    before = resident.settle()
    found = {"before": resident.anonymous() / MIB}
    peaks = []
    for _ in range(STEPS):
        resident.reset_peak()
        turns.read(arm, [step()])
        peaks.append((resident.peak() - before) / MIB)
    return found | {
        "first": peaks[0],
        "most": max(peaks),
        "steady": max(peaks[-STEADY:]),
        "held": (resident.now() - before) / MIB,
        "steps": peaks,
    }
