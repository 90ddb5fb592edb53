"""Computes OpInfo's samples on cpu and on lazuli in reference mode, with gradients.

Run with LAZULI_KERNELS=eager; the last line is JSON: how many samples there were, and by operator
which results differ in a bit, a stride or an error.
"""

import itertools
import json
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

SAMPLES = 3
# Whose results have no content, or are not the same from one of eager's calls to the next.
LEFT_OUT = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty"}
LEFT_OUT |= {"new_empty_strided", "linalg.lstsq"}


def moved(value, where: str):
    """A tensor with the same strides, a device, or the value as it is."""
    if isinstance(value, torch.Tensor):
        t = value.detach()
        if t.layout == torch.strided and t.numel():
            t = torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=where).copy_(t)
        else:
            t = t.to(where, copy=True)
        return t.requires_grad_(value.requires_grad)
    if value == "cpu" or value == torch.device("cpu"):
        return type(value)(where)
    return value


def outcome(op, sample, where: str) -> list:
    torch.manual_seed(0)
    x, args, kwargs = tree_map(
        lambda v: moved(v, where), (sample.input, sample.args, sample.kwargs)
    )
    out = tree_leaves(op(x, *args, **kwargs))
    wanted = [t for t in tree_leaves((x, args, kwargs)) if getattr(t, "requires_grad", False)]
    from_ = [t for t in out if getattr(t, "requires_grad", False) and t.layout == torch.strided]
    if wanted and from_:
        torch.manual_seed(1)
        gradients = [torch.randn(t.shape, dtype=t.dtype).to(where) for t in from_]
        out += torch.autograd.grad(from_, wanted, gradients, allow_unused=True)
    return out


def same(eager, ours) -> bool:
    if not isinstance(eager, torch.Tensor) or eager.layout != torch.strided:
        return type(eager) is type(ours)
    if eager.numel() > 1 and eager.stride() != ours.stride():
        return False
    try:
        torch.testing.assert_close(ours.cpu(), eager, rtol=0, atol=0, equal_nan=True)
    except AssertionError:
        return False
    return True


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    count, differing = 0, {}
    for op in op_db:
        if op.name in LEFT_OUT or torch.float32 not in op.dtypes:
            continue
        grad = op.supports_autograd and torch.float32 in op.backward_dtypes
        made = op.sample_inputs("cpu", torch.float32, requires_grad=grad)
        for number, sample in enumerate(itertools.islice(made, SAMPLES)):
            try:
                eager = outcome(op, sample, "cpu")
            except Exception:  # eager has no kernel for it here
                continue
            count += 1
            try:
                ours = outcome(op, sample, "lazuli")
                good = [same(e, o) for e, o in zip(eager, ours, strict=True)]
            except Exception as error:
                good = [str(error)[:200]]
            if good != [True] * len(good):
                differing.setdefault(op.full_name, {})[number] = good
    print(json.dumps([count, differing]))


if __name__ == "__main__":
    main()
