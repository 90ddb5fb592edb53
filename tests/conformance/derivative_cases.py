"""The cases of the derivatives suite: torch's gradcheck and gradgradcheck of each native operator.

They compare derivatives with difference quotients on the device itself, where the other suites
compare with cpu. As torch's own tests do, they look along random directions, and at batched and
absent gradients too. What fails on cpu likewise is not the device's.
"""

import dataclasses
import functools
import itertools
import sys
import warnings
from pathlib import Path

import torch
from op_aspects import call, tensors_in
from op_cases import full_name
from sides import DEVICE, HOST
from torch.testing._internal.common_utils import gradcheck, gradgradcheck

sys.path.insert(0, str(Path(__file__).parent.parent / "ops"))

from native_ops import ELSEWHERE, NAMES
from op_samples import find

# What is fused with what depends on where a trace ends, and the last bit on what is fused; that of
# derivatives up to 32.
LAST_BIT = 1e-14
DOUBLE = (torch.float64, torch.complex128)
ASPECTS = ("gradcheck", "gradgradcheck")


@dataclasses.dataclass(frozen=True)
class Case:
    op: object
    aspect: str

    @property
    def name(self) -> str:
        return f"{full_name(self.op)}/{self.aspect}/float64"


@functools.cache
def cases() -> dict[str, Case]:
    ops = [find(name) for name in NAMES if name not in ELSEWHERE.split()]
    found = (
        Case(op, aspect)
        for op in ops
        for aspect in ASPECTS
        if op.supports_autograd
        and torch.float64 in op.supported_backward_dtypes("cpu")
        and (aspect == "gradcheck" or op.supports_gradgrad)
    )
    return {case.name: case for case in found}


def function_of(case: Case, sample, side):
    """The operator as a function of what takes a gradient, and that."""
    inputs = []

    def collect(t):
        t = side.tensor(t)
        inputs.extend([t] if t.requires_grad else [])
        return t

    side.convert((sample.input, sample.args, sample.kwargs), collect)
    op = case.op

    def function(*given):
        given = iter(given)

        def variant(*args, **kwargs):
            return op.gradcheck_wrapper(op, *args, **kwargs)

        def tensor(t):
            return next(given) if t.requires_grad else side.tensor(t)

        return sample.output_process_fn_grad(call(op, variant, sample, side, tensor))

    return function, inputs


def check(case: Case, sample, side):
    op = case.op
    function, inputs = function_of(case, sample, side)
    outputs = [t for t in tensors_in(function(*inputs)) if t.requires_grad]
    if not inputs or not all(t.dtype in DOUBLE for t in outputs):
        return  # difference quotients of less precise numbers say nothing
    common = {
        "nondet_tol": max(op.gradcheck_nondet_tol, LAST_BIT),
        "fast_mode": op.gradcheck_fast_mode,
        "check_grad_dtypes": True,
    }
    if case.aspect == "gradcheck":
        gradcheck(function, inputs, check_batched_grad=op.check_batched_grad, **common)
    else:
        gradgradcheck(
            function,
            inputs,
            gen_non_contig_grad_outputs=False,
            check_batched_grad=op.check_batched_gradgrad,
            **common,
        )


def run(case: Case, most=None):
    """Raises AssertionError for the first sample whose derivatives are wrong on lazuli only."""
    torch.manual_seed(0)
    samples = case.op.sample_inputs("cpu", torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, sample in enumerate(itertools.islice(samples, most)):
            torch.manual_seed(0)
            try:
                check(case, sample, DEVICE)
            except Exception as error:
                torch.manual_seed(0)
                try:
                    check(case, sample, HOST)
                except Exception:
                    continue
                raise AssertionError(f"{error}\nsample {n}: {repr(sample)[:600]}") from error
