"""Programs on CUDA tensors, in a process that has the device installed."""

import subprocess
import sys

import pytest

TRAINING = """
import torch

assert hasattr(torch, "lazuli")  # it is installed

def step(model, device):
    model(torch.ones(3, 4, device=device)).square().sum().backward()
    return model.weight.grad.clone()

model = torch.nn.Linear(4, 2).to("cuda")
first = step(model, "cuda")
{use}
model.zero_grad()
assert torch.equal(step(model, "cuda"), first)
"""
USES = {
    "before the device is used": "",
    "beside it": "step(torch.nn.Linear(4, 2).to('lazuli'), 'lazuli').cpu()",
}


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("use", USES)
def test_backward_on_cuda_tensors(use):
    run(TRAINING.format(use=USES[use]))


def test_whether_it_is_the_accelerator_needs_no_gpu():
    """A child that is forked could not use a GPU that its parent has used."""
    run("""
import os
import torch

torch.accelerator.current_accelerator()
if child := os.fork():
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
else:
    torch.ones(2, device="cuda").sum().item()
    os._exit(0)
""")
