"""Every native op against cpu, over torch's own OpInfo samples: values, dtypes, shapes, gradients.

The first LAZULI_OPINFO_SAMPLES samples (12; `all` for all) of each op and dtype are run.
"""

import functools
import itertools

import pytest
import torch
from native_ops import ELSEWHERE, NAMES
from op_samples import (
    HOST_ARGUMENTS,
    HOST_ONLY,
    SAMPLES,
    SUMS,
    device_copy,
    find,
    full_name,
    host_copy,
    is_random,
    limits,
    tensors_in,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
DIFFERENTIABLE = (torch.float32, torch.float64)


def cases(dtypes, wanted=lambda op, dtype: True):
    return [
        pytest.param(name, dtype, id=f"{name}-{str(dtype).split('.')[1]}")
        for name in NAMES
        for dtype in dtypes
        if dtype in find(name).supported_dtypes("cpu")
        and (name, dtype) not in HOST_ONLY
        and wanted(find(name), dtype)
    ]


def samples(op, dtype, grad=False, most=SAMPLES):
    torch.manual_seed(0)
    found = op.sample_inputs("cpu", dtype, requires_grad=grad)
    return list(itertools.islice((s for s in found if not is_random(s)), most))


def call(op, function, sample, convert):
    def convert_all(tree, convert):
        return tree_map(lambda x: convert(x) if isinstance(x, torch.Tensor) else x, tree)

    torch.manual_seed(0)
    arguments = host_copy if op.name in HOST_ARGUMENTS else convert
    result = function(
        convert_all(sample.input, convert),
        *convert_all(sample.args, arguments),
        **convert_all(sample.kwargs, arguments),
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
        a, e = a.detach().cpu(), e.detach()
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
    given = [torch.randn(t.shape, dtype=t.dtype).to(t.device) for t in outputs]
    return torch.autograd.grad(outputs, inputs, given, allow_unused=True)


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
