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
        "torch.lazuli.synchronize()\n"
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


def test_memory_and_versions_are_eagers():
    """Results from an operand's memory, or in its place; writes of lists, tangents with gaps."""
    out = run(
        "-c",
        "import torch\n"
        "import torch.autograd.forward_ad as fwad\n"
        "def facts(where):\n"
        "    x = torch.arange(75.0).reshape(3, 5, 5).to(where)\n"
        "    seven = torch.tensor(7.0, device=where)\n"
        "    y = torch.select_scatter(x[1, 1], seven, 0, 2)\n"
        "    yield y.storage_offset(), y.untyped_storage().nbytes(), y.tolist()\n"
        "    y = torch.slice_scatter(x[:, 1], seven.expand(1, 5), 0, 2)\n"
        "    yield y.storage_offset(), y.stride(), y.tolist()\n"
        "    y = torch.as_strided_copy(x[1], (2,), (1,), 3, out=torch.empty(0, device=where))\n"
        "    yield y.tolist()\n"
        "    torch._foreach_add_([x, seven], 1)\n"
        "    torch._foreach_zero_([x])\n"
        "    yield x._version, seven._version\n"
        "    with fwad.dual_level():\n"
        "        gaps = torch.ones(5, 2, device=where)[:, 0]\n"
        "        y = fwad.make_dual(gaps, gaps.cos()).reshape(-1)\n"
        "        yield [t.tolist() for t in fwad.unpack_dual(y)]\n"
        "    y = torch.imag(torch.ones(2, 0, dtype=torch.complex64, device=where))\n"
        "    torch.full((1,), 3.0, out=y)\n"
        "    yield y.storage_offset(), y.tolist()\n"
        "print([a == b for a, b in zip(*(list(facts(d)) for d in ('cpu', 'lazuli')))])\n",
    )
    assert out.strip() == str([True] * 6)


def test_a_recurrent_layer_runs_as_it_was_called():
    """With gradients, even if its trace ends where there are none, and the other way round."""
    out = run(
        "-c",
        "import torch\n"
        "layer = torch.nn.LSTM(4, 3).to('lazuli')\n"
        "x = torch.ones(2, 3, 4, device='lazuli')\n"
        "def trained(ends_without):\n"
        "    y = layer(x)[0]\n"
        "    with torch.set_grad_enabled(not ends_without):\n"
        "        y.sum().item()\n"
        "    layer.zero_grad()\n"
        "    y.sum().backward()\n"
        "    return layer.weight_ih_l0.grad.cpu()\n"
        "with torch.no_grad():\n"
        "    y = layer(x)[0]\n"
        "y.sum().item()\n"
        "print(torch.equal(trained(True), trained(False)))\n",
    )
    assert out.strip() == "True"


def test_it_cannot_be_chosen_later(device):
    with pytest.raises(ValueError, match="set LAZULI_KERNELS before"):
        torch.lazuli.config.kernels = "eager"
    with pytest.raises(ValueError, match="lazuli or eager"):
        torch.lazuli.config.kernels = "cuda"
    assert torch.lazuli.config.kernels == "lazuli"


def test_one_hot_refuses_what_eager_refuses():
    out = run(
        "-c",
        "import torch\n"
        "from torch.nn.functional import one_hot\n"
        "for numbers, classes in [([-4, 2], -1), ([-4], 3), ([4], 3), ([1, 0], -1), ([], 2)]:\n"
        "    for device in ('cpu', 'lazuli'):\n"
        "        x = torch.tensor(numbers, dtype=torch.int64).to(device)\n"
        "        try:\n"
        "            print(one_hot(x, classes).tolist())\n"
        "        except RuntimeError as error:\n"
        "            print(str(error).splitlines()[0])\n",
    ).splitlines()
    assert len(out) == 10
    assert out[::2] == out[1::2]
