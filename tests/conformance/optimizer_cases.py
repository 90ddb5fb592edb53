"""The cases of the optimizer suite, `optimizer/implementation/dtype` each, over torch's database.

A small model is trained for some steps with every set of options; parameters and state agree.
"""

import dataclasses
import functools
import itertools
import warnings

import torch
from agreement import Arbiter, attempt, same
from sides import ARBITER, DEVICE, HOST, WIDE
from torch.testing._internal.common_optimizers import optim_db

STEPS = 4
FLAGS = ("foreach", "fused", "differentiable")
IMPLEMENTATIONS = {
    "forloop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
TYPES = (torch.float32, torch.float64, torch.bfloat16)


@dataclasses.dataclass(frozen=True)
class Case:
    info: object
    implementation: str
    dtype: torch.dtype

    @property
    def name(self) -> str:
        kind = self.info.optim_cls.__name__
        return f"{kind}/{self.implementation}/{str(self.dtype).split('.')[1]}"


def offers(info, implementation: str) -> bool:
    return implementation == "forloop" or implementation in info.supported_impls


@functools.cache
def cases() -> dict[str, Case]:
    found = (
        Case(info, implementation, dtype)
        for info in optim_db
        for implementation in IMPLEMENTATIONS
        if offers(info, implementation)
        for dtype in TYPES
    )
    return {case.name: case for case in found}


def options_of(case: Case, sample) -> dict:
    kept = {k: v for k, v in sample.kwargs.items() if k not in FLAGS}
    chosen = IMPLEMENTATIONS[case.implementation]
    takes = set(case.info.supported_impls) | set(sample.kwargs)
    return kept | {k: v for k, v in chosen.items() if k in takes}


def sparse_rows(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.to_sparse(1)


def train(case: Case, sample, side):
    dtype = WIDE.get(case.dtype, case.dtype) if side is ARBITER else case.dtype
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(shape, generator=generator).to(dtype).to(side.device)

    parameters = [torch.nn.Parameter(drawn(*shape)) for shape in ((4, 3), (5, 4))]
    x, y = drawn(7, 3), drawn(7, 5)
    optimizer = case.info.optim_cls(parameters, **side.convert(options_of(case, sample)))
    losses = []

    def closure():
        optimizer.zero_grad()
        first, second = parameters
        loss = ((x @ first.t()).tanh() @ second.t() - y).square().mean()
        loss.backward()
        if case.info.only_supports_sparse_grads:
            for p in parameters:
                p.grad = sparse_rows(p.grad)
        losses.append(loss.detach())
        return loss

    for _ in range(STEPS):
        if case.info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return {
        "parameters": [p.detach() for p in parameters],
        "losses": losses,
        "state": optimizer.state_dict()["state"],
    }


def run(case: Case, most=None):
    found = case.info.optim_inputs_func(device="cpu")
    for sample in itertools.islice(found, most):
        try:
            run_sample(case, sample)
        except AssertionError as error:
            raise AssertionError(f"{error}\noptions: {sample.desc} {sample.kwargs}") from None


def run_sample(case, sample):
    def on(side):
        return attempt(lambda: train(case, sample, side))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arbiter = Arbiter(*(functools.partial(train, case, sample, s) for s in (ARBITER, HOST)))
        # Torch keeps the count of steps on the host, whatever the parameters' device.
        same(on(DEVICE), on(HOST), arbiter, lambda _: {}, device=None, strides=False)
