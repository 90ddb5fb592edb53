"""The cases of the module suite, `module/mode/dtype` each, over torch's database of nn modules.

In a mode a module is made and moved; its results, its gradients, its buffers and its state agree.
The mode `error_inputs` are torch's bad arguments, of the constructor or of the module: class and
message of the error agree.
"""

import dataclasses
import functools
import itertools
import warnings

import torch
from agreement import Arbiter, attempt, same
from op_aspects import drawn_like, tensors_in
from sides import ARBITER, DEVICE, HOST, WIDE
from torch.testing._internal.common_modules import module_db

MODES = {"train": True, "eval": False}
ERRORS = "error_inputs"


@dataclasses.dataclass(frozen=True)
class Case:
    info: object
    mode: str
    dtype: torch.dtype

    @property
    def name(self) -> str:
        return f"{self.info.name}/{self.mode}/{str(self.dtype).split('.')[1]}"


def modes(info) -> list[str]:
    return [*MODES, *([ERRORS] if info.module_error_inputs_func else [])]


@functools.cache
def cases() -> dict[str, Case]:
    found = (
        Case(info, mode, dtype)
        for info in module_db
        for mode in modes(info)
        for dtype in sorted(info.dtypes, key=str)
    )
    return {case.name: case for case in found}


def compute(case: Case, sample, side):
    torch.manual_seed(0)
    constructor, forward = sample.constructor_input, sample.forward_input
    dtype = WIDE[case.dtype] if side is ARBITER else case.dtype
    module = case.info.module_cls(*constructor.args, **constructor.kwargs)
    module = module.to(dtype).train(MODES.get(case.mode, True))
    if any(map(torch.nn.parameter.is_lazy, module.parameters())):
        here = ARBITER if side is ARBITER else HOST  # numbers drawn elsewhere would be others
        module(*here.convert(forward.args), **here.convert(forward.kwargs))
    module = module.to(side.device)
    args, kwargs = side.convert(forward.args), side.convert(forward.kwargs)
    torch.manual_seed(0)
    result = module(*args, **kwargs)
    if case.mode == ERRORS:  # some errors only numbers show: lazuli raises those when they are read
        [t.cpu() for t in tensors_in(result)]
    outputs = [t for t in tensors_in(result) if t.requires_grad]
    inputs = [t for t in tensors_in((args, kwargs)) if t.requires_grad]
    sources = inputs + [p for p in module.parameters() if p.requires_grad]
    gradients = []
    if outputs and sources:
        given = [drawn_like(t, i, side) for i, t in enumerate(outputs)]
        gradients = torch.autograd.grad(outputs, sources, given, allow_unused=True)
    return {
        "result": result,
        "gradients": gradients,
        "buffers": dict(module.named_buffers()),
        "state": list(module.state_dict()),
    }


def samples(case: Case):
    torch.manual_seed(0)
    about = {"device": "cpu", "dtype": case.dtype, "requires_grad": True}
    if case.mode == ERRORS:
        found = case.info.module_error_inputs_func(case.info, training=True, **about)
        return [error.module_error_input for error in found]
    return case.info.module_inputs_func(case.info, training=MODES[case.mode], **about)


def run(case: Case, most=None):
    for n, sample in enumerate(itertools.islice(samples(case), most)):
        try:
            run_sample(case, sample)
        except AssertionError as error:
            raise AssertionError(f"{error}\nsample {n}: {sample.desc}") from None


def run_sample(case, sample):
    def on(side):
        return attempt(lambda: compute(case, sample, side))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        expected = on(HOST)
        torch.manual_seed(0)
        random = draws(case)
        arbiter = Arbiter(*(functools.partial(compute, case, sample, s) for s in (ARBITER, HOST)))
        same(on(DEVICE), expected, arbiter, lambda _: {}, "lazuli", not random, False)


def draws(case) -> bool:
    """Whether the module's forward draws numbers, which are each device's own."""
    name = case.info.name
    return case.mode == "train" and ("Dropout" in name or name == "nn.RReLU")
