"""What test_opinfo.py needs of torch's OpInfo database."""

import os
import sys

import torch
from native_ops import CONTRACTION
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils._pytree import tree_flatten

_asked = os.environ.get("LAZULI_OPINFO_SAMPLES", "12")
SAMPLES = sys.maxsize if _asked == "all" else int(_asked)


def full_name(op) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


_by_name = {}
for _op in op_db:
    _by_name.setdefault(full_name(_op), _op)


def find(name):
    return _by_name[name]


def tensors_in(tree) -> list[torch.Tensor]:
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def copy_to(device):
    """A function that copies a tensor to a device: the same geometry over a copy of its memory."""

    def copy(t: torch.Tensor) -> torch.Tensor:
        memory = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
        there = memory.clone().to(device).as_strided(t.size(), t.stride(), t.storage_offset())
        return there.detach().requires_grad_(t.requires_grad)

    return copy


host_copy, device_copy = copy_to("cpu"), copy_to("lazuli")


DEFAULTS = {
    torch.float64: {"rtol": 1e-7, "atol": 1e-7},
    torch.float32: {"rtol": 1.3e-6, "atol": 1e-5},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-5},
}


# Long sums: an element near zero has the error of the large terms that it is made of.
SUMS = set(CONTRACTION.split())
# torch wants these arguments on the host, whatever the device.
HOST_ARGUMENTS = {"tensor_split"}
# Results whose dtype on the host is another than on accelerators (statistics of narrow inputs).
HOST_ONLY = {("native_batch_norm", torch.bfloat16), ("native_layer_norm", torch.bfloat16)}


def is_random(sample) -> bool:
    return bool(sample.kwargs.get("dropout_p"))


def limits(op, dtype, result, scale=1) -> dict:
    """torch.testing's tolerance for a result, or the widest that the OpInfo declares for cpu."""
    found = DEFAULTS.get(result, {"rtol": 0.0, "atol": 0.0})
    rtol, atol = found["rtol"] * scale, found["atol"] * scale
    for decorator in op.decorators:
        if not isinstance(decorator, DecorateInfo) or decorator.device_type not in (None, "cpu"):
            continue
        for inner in decorator.decorators:
            if isinstance(inner, toleranceOverride) and dtype in inner.d:
                declared = inner.d[dtype]
                rtol, atol = max(rtol, declared.rtol), max(atol, declared.atol)
    return {"rtol": rtol, "atol": atol}
