"""Every native op against eager CUDA, over OpInfo's samples: values, dtypes, strides, gradients.

Where eager CUDA has no kernel, and where it is the less accurate one, the CPU decides.
LAZULI_OPINFO_SAMPLES is the number of samples for each op and dtype (3).
"""

import functools
import os

import pytest
import torch
from native_ops import NAMES
from op_samples import (
    SAMPLES,
    allowed,
    assert_close,
    call,
    copy_to,
    device_copy,
    find,
    gradients,
    host_copy,
    samples,
    tensors_in,
)

MOST = SAMPLES if "LAZULI_OPINFO_SAMPLES" in os.environ else 3
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.bool)
# In evaluation its statistics have another shape or type on CUDA than on the CPU: ours follow it.
OTHERWISE_ON_CUDA = {"native_batch_norm", "_native_batch_norm_legit"}
DIFFERENTIABLE = (torch.float32, torch.bfloat16)

cuda_copy = copy_to("cuda")


def cases(dtypes, wanted=lambda op, dtype: True):
    return [
        pytest.param(name, dtype, id=f"{name}-{str(dtype).split('.')[1]}")
        for name in NAMES
        if name not in OTHERWISE_ON_CUDA
        for dtype in dtypes
        if dtype in find(name).supported_dtypes("cpu")
        and dtype in find(name).supported_dtypes("cuda")
        and wanted(find(name), dtype)
    ]


def in_float64(t):
    """A copy on the host of what the numbers mean, for results that need not be eager's."""
    there = host_copy(t)
    return there.double() if t.dtype.is_floating_point else there


def eager(function):
    """What eager CUDA gives, or the CPU where it has no such kernel."""
    try:
        return function(cuda_copy)
    except (RuntimeError, NotImplementedError, TypeError):
        return function(host_copy)


def allowed_gradient(op, dtype, expected):
    """In narrow types a gradient near zero has the error of the large terms that it is made of."""
    found = allowed(op, dtype, expected, scale=10)
    if dtype is torch.bfloat16 and expected.numel() and expected.dtype.is_floating_point:
        found["atol"] += 2e-2 * expected.nan_to_num().abs().max().item()
    return found


@pytest.mark.parametrize(("name", "dtype"), cases(DTYPES))
def test_values(name, dtype):
    op = find(name)
    for n, sample in enumerate(samples(op, dtype, most=MOST)):
        expected = eager(lambda copy, s=sample: tensors_in(call(op, op, s, copy)))
        actual = tensors_in(call(op, op, sample, device_copy))

        def reference(s=sample):
            return tensors_in(call(op, op, s, in_float64))

        tolerance = functools.partial(allowed, op, dtype)
        floating = dtype.is_floating_point
        where = f"sample {n}: {sample}"
        assert_close(actual, expected, reference if floating else None, tolerance, where)


@pytest.mark.parametrize(
    ("name", "dtype"),
    cases(
        DIFFERENTIABLE,
        lambda op, dtype: (
            dtype in op.supported_backward_dtypes("cpu")
            and dtype in op.supported_backward_dtypes("cuda")
        ),
    ),
)
def test_gradients(name, dtype):
    op = find(name)
    for n, sample in enumerate(samples(op, dtype, grad=True, most=max(1, MOST // 2))):
        expected = eager(lambda copy, s=sample: gradients(op, s, copy))
        actual = gradients(op, sample, device_copy)
        assert [a is None for a in actual] == [e is None for e in expected], f"sample {n}"
        present = [i for i, e in enumerate(expected) if e is not None]

        def reference(s=sample, present=present):
            found = gradients(op, s, in_float64)
            return [found[i] for i in present]

        assert_close(
            [actual[i].contiguous() for i in present],
            [expected[i].contiguous() for i in present],
            reference,
            functools.partial(allowed_gradient, op, dtype),
            f"sample {n}: {sample}",
        )


@pytest.mark.parametrize(
    ("name", "dtype"), cases((torch.float32,), lambda op, _: op.inplace_variant)
)
def test_in_place(name, dtype):
    op = find(name)
    for n, sample in enumerate(samples(op, dtype, most=max(1, MOST // 2))):
        try:
            expected = call(op, op.inplace_variant, sample, host_copy)
        except (RuntimeError, NotImplementedError):
            continue  # tests/error has the errors
        expected = eager(lambda copy, s=sample: call(op, op.inplace_variant, s, copy))
        actual = call(op, op.inplace_variant, sample, device_copy)
        tolerance = functools.partial(allowed, op, dtype)
        assert_close([actual], [expected], None, tolerance, f"sample {n}: {sample}")
