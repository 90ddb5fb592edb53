"""The cases of the OpInfo suite, `op/aspect/dtype` each, and what running one means."""

import dataclasses
import functools
import itertools
import warnings

import op_aspects
import torch
from agreement import Arbiter, attempt, same
from sides import ARBITER, DEVICE, HOST
from torch.testing._internal.common_device_type import tol, toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo

DIFFERENTIATED = (torch.float32, torch.float64, torch.complex128)
WITHOUT_CONTENT = """empty empty_like empty_permuted empty_strided new_empty new_empty_strided
resize_ resize_as_"""


def full_name(op) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def forward_types(op):
    return op.supported_dtypes("cpu")


def backward_types(op):
    return op.supported_backward_dtypes("cpu") if op.supports_autograd else ()


def derivative_types(op):
    return [dtype for dtype in backward_types(op) if dtype in DIFFERENTIATED]


@dataclasses.dataclass(frozen=True)
class Aspect:
    run: object
    types: object  # for which types of an op it is asked
    grad: bool = False
    strides: bool = (
        True  # a gradient's are those of the formula that made it, and promised to nobody
    )


ASPECTS = {
    "forward": Aspect(op_aspects.forward, forward_types),
    "noncontiguous": Aspect(op_aspects.noncontiguous, forward_types),
    "in_place": Aspect(
        op_aspects.in_place, lambda op: forward_types(op) if op.inplace_variant else ()
    ),
    "out": Aspect(op_aspects.out_argument, lambda op: forward_types(op) if op.supports_out else ()),
    "backward": Aspect(op_aspects.backward, backward_types, grad=True, strides=False),
    "double_backward": Aspect(
        op_aspects.double_backward,
        lambda op: derivative_types(op) if op.supports_gradgrad else (),
        grad=True,
        strides=False,
    ),
    "forward_mode": Aspect(
        op_aspects.forward_mode,
        lambda op: derivative_types(op) if op.supports_forward_ad else (),
        grad=True,
    ),
    "error_inputs": Aspect(
        op_aspects.error_inputs, lambda op: (torch.float32,) if op.error_inputs_func else ()
    ),
}


@dataclasses.dataclass(frozen=True)
class Case:
    op: object
    aspect: str
    dtype: torch.dtype

    @property
    def name(self) -> str:
        return f"{full_name(self.op)}/{self.aspect}/{str(self.dtype).split('.')[1]}"


@functools.cache
def cases() -> dict[str, Case]:
    found = (
        Case(op, aspect, dtype)
        for op in op_db
        for aspect, about in ASPECTS.items()
        for dtype in sorted(about.types(op), key=str)
    )
    return {case.name: case for case in found}


# ---- One case


def samples(case: Case, most):
    torch.manual_seed(0)
    if case.aspect == "error_inputs":
        found = case.op.error_inputs("cpu")
    else:
        found = case.op.sample_inputs("cpu", case.dtype, requires_grad=ASPECTS[case.aspect].grad)
    return list(itertools.islice(found, most))


def tolerance(case: Case, result: torch.dtype) -> dict:
    """torch.testing's for the type, unless the OpInfo declares wider ones for cpu."""
    declared = [
        inner.d[case.dtype]
        for decorator in case.op.decorators
        if isinstance(decorator, DecorateInfo) and decorator.device_type in (None, "cpu")
        for inner in decorator.decorators
        if isinstance(inner, toleranceOverride) and case.dtype in inner.d
    ]
    if not declared or not (result.is_floating_point or result.is_complex):
        return {}
    rtol, atol = torch.testing._comparison.default_tolerances(result)
    widest = tol(max(t.atol for t in declared), max(t.rtol for t in declared))
    return {"rtol": max(rtol, widest.rtol), "atol": max(atol, widest.atol)}


def run(case: Case, most=None):
    """Raises AssertionError for the first sample on which lazuli differs."""
    aspect = ASPECTS[case.aspect].run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, sample in enumerate(samples(case, most)):
            try:
                run_sample(case, aspect, sample)
            except AssertionError as error:
                text = repr(sample)
                short = text if len(text) < 600 else f"{text[:600]}..."
                raise AssertionError(f"{error}\nsample {n}: {short}") from None


def seeds_itself(op) -> bool:
    """Whether OpInfo's function for a random op seeds the generator and then puts it back."""
    code = getattr(op.op, "__code__", None)
    return code is not None and "wrapper_set_seed" in code.co_names


def run_sample(case, aspect, sample):
    def on(side):
        return attempt(lambda: aspect(case.op, sample, side))

    torch.manual_seed(0)
    before = torch.get_rng_state()
    expected = on(HOST)
    random = seeds_itself(case.op) or not torch.equal(before, torch.get_rng_state())
    actual = on(DEVICE)
    has_content = full_name(case.op) not in WITHOUT_CONTENT.split()
    numbers = has_content and not random
    limits = functools.partial(tolerance, case)
    strides = ASPECTS[case.aspect].strides
    arbiter = Arbiter(*(functools.partial(aspect, case.op, sample, s) for s in (ARBITER, HOST)))
    same(actual, expected, arbiter, limits, numbers=numbers, strides=strides)
    if random and has_content:
        same(on(DEVICE), actual, None, limits, device="cpu")
