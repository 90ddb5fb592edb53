"""What a first call costs: no modules that eager does not need for it."""

import subprocess
import sys

import pytest

CALLS = {
    "a batch of a loader's worker": "torch.stack([x, x], 0, out=x.new_empty(2, 3, 3))",
    "cat": "torch.cat([x, x], out=torch.empty(6, 3, device='lazuli'))",
    "sort": "torch.sort(x)[0]",
    "eigenvalues": "torch.linalg.eigh(x)[0]",
    "a Fourier transform": "torch.fft.fft(x)",
    "nonzero": "torch.nonzero(x)",
    "a mask": "x[x > 0]",
    "soft shrinking": "torch.nn.functional.softshrink(x)",
    "padding": "torch.nn.functional.pad(x[None], (1, 1), mode='reflect')",
    "a cross product": "torch.linalg.cross(x, x)",
    "take": "x.take(torch.arange(3, device='lazuli'))",
    "folding": "torch.nn.functional.fold(x.new_ones(1, 4, 4), (3, 3), (2, 2))",
    "a maximum by index": "x[0].scatter_reduce(0, x[1].long() % 3, x[2], 'amax')",
    "a product of complex vectors": "torch.vdot(x[0] + 1j, x[1] + 1j)",
    "singular values": "torch.linalg.svdvals(x)",
    "a gradient": "torch.autograd.grad("
    "torch.nn.functional.pad(w := x[None].requires_grad_(), (1, 1), mode='reflect').sum(), w)[0]",
    "bicubic": "torch.nn.functional.interpolate(x[None, None], size=5, mode='bicubic')",
}


@pytest.mark.parametrize("unplanned", ["auto", "never"])
def test_no_call_imports_a_compiler(unplanned):
    code = "import sys, torch\nx = torch.eye(3, device='lazuli') + 1\n"
    for name, call in CALLS.items():
        code += f"for _ in range(4):\n    ({call}).tolist()\n"
        code += f"assert not {{'sympy', 'torch._dynamo'}} & sys.modules.keys(), {name!r}\n"
    if unplanned == "never":
        code = "import os; os.environ['LAZULI_UNPLANNED'] = 'never'\n" + code
    else:
        code = "import os; os.environ.pop('LAZULI_UNPLANNED', None)\n" + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
