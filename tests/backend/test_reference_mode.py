"""LAZULI_KERNELS=eager: every kernel is torch's own, and the device says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "LAZULI_KERNELS": "eager", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "has no kernel of its own" not in done.stderr
    return done.stdout


def test_samples_of_all_operators_are_eagers():
    script = Path(__file__).with_name("reference_operators.py")
    count, differing = json.loads(run(str(script)).splitlines()[-1])
    assert differing == {}
    assert count > 1000


def test_the_device_says_so():
    out = run(
        "-c",
        "import torch\n"
        "x = torch.randn(3, 4, device='lazuli').requires_grad_()\n"
        "torch.nn.functional.gelu(x @ x.t()).sum().backward()\n"
        "x.grad.cpu()\n"
        "print(torch.lazuli.config.kernels, torch.lazuli.metrics()['kernels'])\n"
        "print(torch.lazuli.metrics()['external_calls'])\n"
        "print(torch.lazuli.explain())\n",
        LAZULI_FALLBACK="warn",
    )
    first, calls, reference, *_ = out.splitlines()
    assert first == "eager eager"
    assert "aten::gelu_backward" in calls
    assert reference.startswith("reference mode")


def test_each_operator_of_the_cpu_has_its_kernel():
    out = run(
        "-c",
        "import torch\n"
        "names = torch._C._dispatch_get_all_op_names()\n"
        "has = torch._C._dispatch_has_kernel_for_dispatch_key\n"
        "print([n for n in names if n.startswith('aten::') and has(n, 'CPU')"
        " and not has(n, 'PrivateUse1')])\n",
    )
    assert out.strip() == "[]"


def test_running_statistics_are_written():
    """Torch's schema does not say that they are."""
    out = run(
        "-c",
        "import torch\n"
        "x = torch.randn(4, 3, 5)\n"
        "def train(where):\n"
        "    norm = torch.nn.BatchNorm1d(3).to(where)\n"
        "    before = norm.running_mean.clone()\n"
        "    for _ in range(3): norm(x.to(where))\n"
        "    return before.cpu(), norm.running_mean.cpu()\n"
        "for a, b in zip(train('cpu'), train('lazuli')): print(torch.equal(a, b))\n",
    )
    assert out.split() == ["True", "True"]


def test_the_default_type_is_that_of_the_call():
    out = run(
        "-c",
        "import torch\n"
        "a = torch.arange(3, device='lazuli')\n"
        "torch.set_default_dtype(torch.float64)\n"
        "b = a / 2\n"
        "torch.set_default_dtype(torch.float32)\n"
        "print(b.dtype, (a / 2).dtype, b.tolist())\n",
    )
    assert out.strip() == "torch.float64 torch.float32 [0.0, 0.5, 1.0]"


def test_it_cannot_be_chosen_later(device):
    with pytest.raises(ValueError, match="set LAZULI_KERNELS before"):
        torch.lazuli.config.kernels = "eager"
    with pytest.raises(ValueError, match="lazuli or eager"):
        torch.lazuli.config.kernels = "cuda"
    assert torch.lazuli.config.kernels == "lazuli"
