"""What tests over torch's OpInfo database share: its samples, calls on a device, comparisons."""

import itertools
import os
import sys

import torch
from native_ops import CONTRACTION
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils._pytree import tree_flatten, tree_map

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


def samples(op, dtype, grad=False, most=SAMPLES):
    torch.manual_seed(0)
    found = op.sample_inputs("cpu", dtype, requires_grad=grad)
    return list(itertools.islice((s for s in found if not is_random(s)), most))


def call(op, function, sample, convert):
    def convert_all(tree, convert):
        return tree_map(lambda x: convert(x) if isinstance(x, torch.Tensor) else x, tree)

    torch.manual_seed(0)
    result = function(
        convert_all(sample.input, convert),
        *convert_all(sample.args, convert),
        **convert_all(sample.kwargs, convert),
    )
    return sample.output_process_fn_grad(result)


def significant(t):
    """The strides that decide where elements lie."""
    return [st for size, st in zip(t.shape, t.stride(), strict=True) if size > 1 and t.numel()]


def assert_close(actual, expected, reference, tolerance_of, where):
    """Compares results; in narrow types being close to the float64 result is as good as eager's."""
    assert len(actual) == len(expected), where
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert (a.dtype, a.shape) == (e.dtype, e.shape), f"result {i}: {where}"
        assert significant(a) == significant(e), f"result {i}, strides: {where}"
        a, e = a.detach().cpu(), e.detach().cpu()
        tolerance = tolerance_of(e)
        try:
            torch.testing.assert_close(a, e, equal_nan=True, check_stride=False, **tolerance)
        except AssertionError as error:
            try:
                better = reference()[i].detach().to(e.dtype) if reference else None
            except (RuntimeError, ValueError, TypeError):
                better = None
            if better is None:
                raise AssertionError(f"result {i}: {error} {where}") from None
            torch.testing.assert_close(a, better, equal_nan=True, check_stride=False, **tolerance)


def allowed(op, dtype, expected, scale=1):
    found = limits(op, dtype, expected.dtype, scale)
    if full_name(op) in SUMS and expected.numel() and expected.dtype.is_floating_point:
        found["atol"] += found["rtol"] * expected.nan_to_num().abs().max().item()
    return found


def widened(t):
    return t.double() if t.dtype == torch.bfloat16 else t


def gradients(op, sample, convert):
    inputs = []

    def collect(t):
        t = convert(t)
        inputs.extend([t] if t.requires_grad else [])
        return t

    outputs = tensors_in(call(op, op, sample, collect))
    outputs = [t for t in outputs if t.requires_grad]
    if not inputs or not outputs:
        return []
    torch.manual_seed(1)
    # the same numbers in every type: a generator draws others for another one
    given = [
        torch.randn(t.shape, dtype=torch.promote_types(t.dtype, torch.float64)) for t in outputs
    ]
    given = [g.to(t.dtype).to(t.device) for g, t in zip(given, outputs, strict=True)]
    return torch.autograd.grad(outputs, inputs, given, allow_unused=True)
