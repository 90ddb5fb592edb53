"""Light autograd nodes (LAZULI_LIGHT_AUTOGRAD=1): the tests of autograd's semantics hold with them.

Nodes are registered when the plugin is loaded, so the tests run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = (
    "test_autocast",
    "test_checkpoint",
    "test_composability",
    "test_func",
    "test_grad_accumulation",
    "test_grad_scaler",
    "test_modules",
    "test_narrow_types",
    "test_optimizers",
    "test_vmap",
    "test_hooks",
    "test_double_backward",
    "test_set_data",
    "test_version_counter",
)
# What differs from torch's own nodes, and why light nodes are not the default yet.
DIFFERENT = (
    "test_grad_fn_hooks",  # type(grad_fn) is CppFunction: torch names Python types by C++ class
    "test_gradient_penalty",  # the stride of a dimension of size one
)


@pytest.mark.parametrize("file", FILES)
def test_semantics(file):
    keep = " and ".join(f"not {name}" for name in DIFFERENT)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-k", keep, str(TESTS / f"{file}.py")]
    run = subprocess.run(
        command,
        env=os.environ | {"LAZULI_LIGHT_AUTOGRAD": "1", "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
        cwd=TESTS.parent.parent,
    )
    assert run.returncode == 0, run.stdout[-4000:]


def test_nodes_are_light():
    script = (
        "import torch; x = torch.ones(2, device='lazuli', requires_grad=True);"
        "y = (x * 2).sin(); assert y.grad_fn.name() == 'SinBackward0';"
        "assert type(y.grad_fn).__name__ == 'CppFunction'; y.sum().backward();"
        "assert x.grad.shape == (2,)"
    )
    environment = os.environ | {"LAZULI_LIGHT_AUTOGRAD": "1"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
