"""What is written may overlap itself or what is read: refused or taken as eager does."""

import pytest
import torch
from differential import without_device
from op_samples import full_name, samples
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

# Eager's kernels write outside of the memory, or what comes last wins by chance; ours refuse.
UNCHECKED_BY_EAGER = {"addmv", "baddbmm", "bmm", "mv", "matmul", "narrow_copy"}
UNCHECKED_FOLDERS = ("nn.functional.", "linalg.", "as_strided")


def shifted(x):
    """x, and what lies one element further in the same memory."""
    memory = torch.cat([x.reshape(-1), x.reshape(-1)[:1]])
    return memory[:-1].view(x.shape), memory[1:].view(x.shape)


def expanded(x):
    return x[:1].expand(x.shape)


def in_place_expanded(op, x, args, kwargs):
    op.inplace_variant(expanded(x), *args, **kwargs)


def in_place_shifted(op, x, args, kwargs):
    alike = [
        i
        for i, a in enumerate(args)
        if isinstance(a, torch.Tensor) and (a.dtype, a.shape) == (x.dtype, x.shape)
    ]
    if alike:
        x, other = shifted(x)
        args = [other if i in alike else a for i, a in enumerate(args)]
        op.inplace_variant(x, *args, **kwargs)


def out_expanded(op, x, args, kwargs):
    result = op(x, *args, **kwargs)
    if isinstance(result, torch.Tensor) and result.dim() and result.shape[0] > 1:
        op(x, *args, **kwargs, out=expanded(torch.zeros_like(result)))


def out_shifted(op, x, args, kwargs):
    result = op(x, *args, **kwargs)
    if isinstance(result, torch.Tensor) and (result.dtype, result.shape) == (x.dtype, x.shape):
        x, out = shifted(x)
        op(x, *args, **kwargs, out=out)


def out_same(op, x, args, kwargs):
    result = op(x, *args, **kwargs)
    if isinstance(result, torch.Tensor) and (result.dtype, result.shape) == (x.dtype, x.shape):
        op(x, *args, **kwargs, out=x)


def ways_of(op):
    safe = op.name not in UNCHECKED_BY_EAGER and not op.name.startswith(UNCHECKED_FOLDERS)
    if op.inplace_variant and not op.name.startswith("as_strided"):
        yield in_place_shifted
        if op.name not in UNCHECKED_BY_EAGER:
            yield in_place_expanded
    if op.supports_out:
        yield from (out_shifted, out_same)
        if safe:
            yield out_expanded


def error_of(way, op, sample, device):
    """The error's class and words, or None."""
    x, args, kwargs = tree_map(
        lambda t: t.detach().clone().to(device) if isinstance(t, torch.Tensor) else t,
        (sample.input, sample.args, sample.kwargs),
    )
    torch.manual_seed(0)
    try:
        way(op, x, args, kwargs)
    except Exception as error:  # any is compared
        return type(error), without_device(error)
    if device != "cpu":
        torch.lazuli.synchronize()
    return None


CASES = [
    op
    for op in op_db
    if {torch.float32, torch.int64} & set(op.dtypes) and (op.inplace_variant or op.supports_out)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", CASES, ids=full_name)
def test_overlapping_memory(device, op):
    dtype = torch.float32 if torch.float32 in op.dtypes else torch.int64
    for sample in samples(op, dtype, most=2):
        if not isinstance(sample.input, torch.Tensor) or sample.input.dim() < 1:
            continue
        if sample.input.numel() < 4:
            continue
        for way in ways_of(op):
            expected = error_of(way, op, sample, "cpu")
            assert error_of(way, op, sample, device) == expected, f"{way.__name__}: {sample}"
