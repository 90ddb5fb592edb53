"""Backward of what was recorded in traces that have ended: steps that are alike are settled alike,
and those that differ in anything are told apart."""

import itertools

import pytest
import torch
from differential import assert_same, normal

STEPS = {
    "a number": lambda x, y, i: x * (0.5 + i) + y,
    "a constant": lambda x, y, i: x.pow(2 + i % 2) + y,
    "a window": lambda x, y, i: torch.tanh(x[i % 3 :, : 2 + i % 2]).sum() * y,
    "one tensor twice": lambda x, y, i: torch.atan2(x, x if i % 2 else y),
    "another operand": lambda x, y, i: torch.sub(x, y) * torch.exp(y if i % 2 else x),
    "another shape": lambda x, y, i: torch.softmax(x[: 1 + i % 3], i % 2).sum() + y,
    "transposed": lambda x, y, i: torch.tanh((x.t() if i % 2 else x) @ (y if i % 2 else y.t())),
    "another type": lambda x, y, i: (x.float() if i % 2 else x).sigmoid() * y,
    "who wants a gradient": lambda x, y, i: torch.lerp(
        x, y.detach() if i % 2 else y, x.detach() if i % 3 else y
    ),
    "several results": lambda x, y, i: (
        y * torch.nn.functional.layer_norm(x, (3,), y[0] if i % 2 else None)
    ),
    "a sum": lambda x, y, i: x.logsumexp(i % 2) * y.sum((i + 1) % 2)[0],
    "picked": lambda x, y, i: (
        x.gather(i % 2, torch.tensor([[0, 1]], device=x.device)) * y[0, i % 3]
    ),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_gradients(step):
    def program(device):
        found = []
        x = normal(3, 3, device=device, dtype=torch.float64).abs().requires_grad_()
        y = normal(3, 3, device=device, dtype=torch.float64).abs().requires_grad_()
        for i in itertools.chain(range(7), reversed(range(7))):
            results = [step(x * 2, y + 1, i), step(y, x, i)]
            for result in results:
                result.sum().item()
            loss = sum(result.double().square().sum() for result in results)
            found += torch.autograd.grad(loss, [x, y], allow_unused=True)
        return found

    assert_same(program, ignore=("stride",))


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_second_derivatives(step):
    def program(device):
        found = []
        x = normal(3, 3, device=device, dtype=torch.float64).abs().requires_grad_()
        y = normal(3, 3, device=device, dtype=torch.float64).abs().requires_grad_()
        for i in (0, 1, 2, 0, 1, 2):
            result = step(x, y, i)
            result.sum().item()
            first = torch.autograd.grad(
                result.square().sum(), [x, y], create_graph=True, allow_unused=True
            )
            total = sum(g.square().sum() for g in first if g is not None)
            total.item()
            if total.requires_grad:
                found += torch.autograd.grad(total, [x, y], allow_unused=True)
        return found

    assert_same(program, ignore=("stride",))
