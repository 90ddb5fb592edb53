"""What the first attention of a process does not wait for, where it is torch's kernel."""

import subprocess
import sys

CODE = """
import sys
import torch

q, k, v = (torch.randn(1, 2, 5, 8, dtype=torch.float64).to("lazuli") for _ in range(3))
torch.nn.functional.scaled_dot_product_attention(q, k, v).sum().item()
assert torch.lazuli.metrics()["external_calls"], "it has a kernel of its own: delete this test"
print([name for name in ("sympy", "torch._dynamo") if name in sys.modules])
"""


def test_it_does_not_load_the_symbolic_shapes_of_python():
    """Torch's meta kernels take them in, which takes as long as hundreds of first steps."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
