"""Every native op against cpu, over torch's own OpInfo samples: values, dtypes, shapes, gradients.

The first LAZULI_OPINFO_SAMPLES samples (12; `all` for all) of each op and dtype are run.
"""

import functools

import pytest
import torch
from native_ops import ELSEWHERE, NAMES
from op_samples import (
    SAMPLES,
    allowed,
    assert_close,
    call,
    device_copy,
    find,
    full_name,
    gradients,
    host_copy,
    samples,
    tensors_in,
    widened,
)
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
DIFFERENTIABLE = (torch.float32, torch.float64)


def cases(dtypes, wanted=lambda op, dtype: True):
    return [
        pytest.param(name, dtype, id=f"{name}-{str(dtype).split('.')[1]}")
        for name in NAMES
        for dtype in dtypes
        if dtype in find(name).supported_dtypes("cpu") and wanted(find(name), dtype)
    ]


@pytest.mark.parametrize(("name", "dtype"), cases(DTYPES))
def test_values(name, dtype):
    op = find(name)
    for n, sample in enumerate(samples(op, dtype)):
        expected = tensors_in(call(op, op, sample, host_copy))
        actual = tensors_in(call(op, op, sample, device_copy))
        narrow = dtype is torch.bfloat16
        reference = (lambda s=sample: tensors_in(call(op, op, s, widened))) if narrow else None
        tolerance = functools.partial(allowed, op, dtype)
        assert_close(actual, expected, reference, tolerance, f"sample {n}: {sample}")


@pytest.mark.parametrize(
    ("name", "dtype"),
    cases(DIFFERENTIABLE, lambda op, dtype: dtype in op.supported_backward_dtypes("cpu")),
)
def test_gradients(name, dtype):
    op = find(name)
    for n, sample in enumerate(samples(op, dtype, grad=True, most=max(1, SAMPLES // 2))):
        expected = gradients(op, sample, host_copy)
        actual = gradients(op, sample, device_copy)
        assert len(actual) == len(expected)
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert (a is None) == (e is None), f"sample {n}, gradient {i}"
            if e is not None:
                torch.testing.assert_close(
                    a.cpu(),
                    e,
                    equal_nan=True,
                    msg=lambda text, n=n, s=sample: f"{text} sample {n}: {s}",
                    check_stride=False,
                    **allowed(op, dtype, e, scale=10),
                )


@pytest.mark.parametrize(
    ("name", "dtype"), cases((torch.float32, torch.int64), lambda op, _: op.inplace_variant)
)
def test_in_place(name, dtype):
    op = find(name)
    for n, sample in enumerate(samples(op, dtype, most=max(1, SAMPLES // 2))):
        try:
            expected = call(op, op.inplace_variant, sample, host_copy)
        except (RuntimeError, NotImplementedError):
            continue  # tests/error has the errors
        actual = call(op, op.inplace_variant, sample, device_copy)
        tolerance = functools.partial(allowed, op, dtype)
        assert_close([actual], [expected], None, tolerance, f"sample {n}: {sample}")


def test_no_native_op_is_missing():
    operators = {
        name.split("::")[1].split(".")[0].rstrip("_")
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
        if name.startswith("aten::")
    }
    listed = set(NAMES) | set(ELSEWHERE.split())
    missing = [
        full_name(op)
        for op in op_db
        if {op.aten_name.split(".")[0].rstrip("_"), op.name.split(".")[-1]} & operators
        and full_name(op) not in listed
    ]
    assert not missing
