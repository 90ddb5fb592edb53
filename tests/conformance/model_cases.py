"""The cases of the model suite, `library/kind/architecture` each.

A model with random weights takes a step on cpu and on lazuli: forward, backward, AdamW. The loss,
the gradients and the buffers are eager's. Where they differ by more than usual, eager's own
sensitivity has to explain it: weights that are rounded otherwise move eager's results as far.
Where they do not, or move them so far that this says little, the same step in float64 has to be
eager's to many digits. The new weights are those that eager's AdamW makes of the old ones and these
gradients, for its first step divides a gradient by itself, whatever is left of it.
"""

import copy
import dataclasses
import functools
import time
import warnings
from collections.abc import Callable

import torch
import zoo_transformers
import zoo_vision
from torch.utils._pytree import tree_leaves, tree_map

TOLERANCE = 2e-4  # of a tensor's largest number
FLOOR = 1e-3  # a tensor is taken for as large as this part of the largest of its sort
TOLERANCE_64 = 1e-7
NOISE = 3e-7  # what rounding adds to each weight
SEEDS = 4
SENSITIVE = 1e-2  # results that rounding moves by more than this part are compared in float64 too
EASY = 3  # how many times eager's own distance is no difference


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[], tuple[torch.nn.Module, dict]]
    draws: bool = False  # its forward draws numbers, which have to be eager's


@functools.cache
def cases() -> dict[str, Case]:
    found = []
    for kind, about in zoo_transformers.KINDS.items():
        for name in about.names.split():
            build = functools.partial(zoo_transformers.build, kind, name)
            found.append(Case(f"transformers/{kind}/{name}", build))
    for kind, names in zoo_vision.TIMM.items():
        for name, size in names.items():
            build = functools.partial(zoo_vision.build_timm, name, size)
            found.append(Case(f"timm/{kind}/{name}", build))
    for kind, names in zoo_vision.TORCHVISION.items():
        for name, size in names.items():
            build = functools.partial(zoo_vision.build_torchvision, kind, name, size)
            found.append(Case(f"torchvision/{kind}/{name}", build, kind == "detection"))
    return {case.name: case for case in found}


def without_chance(model: torch.nn.Module) -> torch.nn.Module:
    """Lets nothing be dropped: each device draws numbers of its own."""
    for module in model.modules():
        for name in ("p", "drop_prob", "drop_rate", "attn_drop", "dropout", "dropout_p"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def loss_of(output) -> torch.Tensor:
    """A number to minimize: the model's own loss, or the squares of all that it gives."""
    if isinstance(output, torch.Tensor):
        return output
    if getattr(output, "loss", None) is not None:
        return output.loss
    found = [t for t in tree_leaves(dict(output)) if isinstance(t, torch.Tensor)]
    return sum(t.float().square().mean() for t in found if t.requires_grad)


@dataclasses.dataclass
class Step:
    """What a step computed, on the host."""

    loss: torch.Tensor
    gradients: dict
    weights: dict
    buffers: dict
    seconds: float


def on_host(tensors: dict) -> dict:
    return {name: None if t is None else t.detach().cpu() for name, t in tensors.items()}


def take_step(model, batch, device: str, noise: int | None = None) -> Step:
    model = copy.deepcopy(model).to(device)
    batch = tree_map(lambda t: t.to(device) if isinstance(t, torch.Tensor) else t, batch)
    parameters = dict(model.named_parameters())
    if noise is not None:
        generator = torch.Generator().manual_seed(noise)
        with torch.no_grad():
            for p in parameters.values():
                p.mul_(1 + NOISE * torch.randn(p.shape, generator=generator))
    optimizer = torch.optim.AdamW(parameters.values(), lr=1e-3)
    torch.manual_seed(0)
    start = time.perf_counter()
    loss = loss_of(model(**batch))
    loss.backward()
    optimizer.step()
    value = loss.detach().cpu()
    if device == "lazuli":
        torch.lazuli.synchronize()
    seconds = time.perf_counter() - start
    return Step(
        value,
        on_host({name: p.grad for name, p in parameters.items()}),
        on_host(parameters),
        on_host(dict(model.named_buffers())),
        seconds,
    )


def updated(model, gradients: dict) -> dict:
    """The weights that eager's AdamW makes with these gradients."""
    model = copy.deepcopy(model)
    parameters = dict(model.named_parameters())
    for name, p in parameters.items():
        p.grad = gradients[name]
    torch.optim.AdamW(parameters.values(), lr=1e-3).step()
    return on_host(parameters)


def largest(t: torch.Tensor | None) -> float:
    """The largest finite number of a floating tensor."""
    if t is None or not t.dtype.is_floating_point or not t.numel():
        return 0.0
    return t.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).abs().max().item()


def distance(actual: torch.Tensor, expected: torch.Tensor, least: float) -> float:
    """The largest difference, as a part of the largest number, or of `least` if that is more."""
    assert actual.shape == expected.shape, f"{actual.shape} against {expected.shape}"
    assert actual.dtype == expected.dtype, f"{actual.dtype} against {expected.dtype}"
    if torch.equal(actual, expected):
        return 0.0
    if not expected.dtype.is_floating_point:
        return torch.inf
    finite = expected.isfinite()
    special = actual[~finite].nan_to_num(nan=0.5)
    if not torch.equal(special, expected[~finite].nan_to_num(nan=0.5)) or not finite.any():
        return torch.inf
    most = (actual - expected)[finite].abs().max().nan_to_num(nan=torch.inf).item()
    return most / max(largest(expected), least, 1e-30)


def differences(actual: Step, expected: Step) -> dict[str, float]:
    found = {"loss": distance(actual.loss, expected.loss, 0)}
    for sort in ("gradients", "buffers"):
        mine, theirs = getattr(actual, sort), getattr(expected, sort)
        least = FLOOR * max(map(largest, theirs.values()), default=0)
        for name, e in theirs.items():
            a, about = mine[name], f"{sort[:-1]} {name}"
            assert (a is None) == (e is None), f"{about}: {a} where cpu has {e}"
            found[about] = 0.0 if e is None else distance(a, e, least)
    return found


def explained(model, batch, expected: Step, found: dict) -> str:
    """Asserts that eager's own sensitivity explains what was found; says how."""
    noisy = [differences(take_step(model, batch, "cpu", s), expected) for s in range(SEEDS)]
    own = {name: max(one[name] for one in noisy) for name in found}
    more = [name for name, value in found.items() if not value <= EASY * own[name]]
    most = max(own.values())
    if not more and most <= SENSITIVE:
        return f"eager's rounding: {most:.1g}"
    model, batch = copy.deepcopy(model).double(), tree_map(widened, batch)
    exact = differences(take_step(model, batch, "lazuli"), take_step(model, batch, "cpu"))
    worst = max(found, key=lambda name: found[name] / max(own[name], 1e-30))
    for name, value in exact.items():
        assert value <= TOLERANCE_64, (
            f"{name} differs by {value:.2g} in float64, and in float32 {worst} by "
            f"{found[worst]:.2g}, eager's own by {own[worst]:.2g}"
        )
    return f"float64 agrees: {max(exact.values()):.1g}"


def widened(leaf):
    is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    return leaf.double() if is_float else leaf


def counted(step: Step) -> dict:
    metrics = torch.lazuli.metrics()
    external_us = sum(e.time_us for e in torch.lazuli.explain() if e.kind == "external")
    return {
        "recorded": metrics["ops_recorded"],
        "external": metrics["external_calls"],
        "syncs": metrics["syncs"],
        "kernels": metrics["kernels_compiled"],
        "seconds": step.seconds,
        "external_seconds": external_us / 1e6,
        "run_seconds": metrics["run_ms"] / 1e3,
        "compile_seconds": metrics["compile_ms"] / 1e3,
    }


def run(case: Case, most=None) -> dict:
    """Compares; returns the facts of the case's line in the table."""
    draws = torch.lazuli.config.patch(random="eager" if case.draws else "philox")
    with warnings.catch_warnings(), draws:
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model, batch = case.build()
        without_chance(model.train())
        expected = take_step(model, batch, "cpu")
        torch.lazuli.synchronize()
        torch.lazuli.reset_metrics()
        torch.lazuli.explain()
        actual = take_step(model, batch, "lazuli")
        facts = {**counted(actual), "eager_seconds": expected.seconds}
        found = differences(actual, expected)
        facts["difference"] = max(found.values())
        large = {name: value for name, value in found.items() if not value <= TOLERANCE}
        facts["explained"] = explained(model, batch, expected, large) if large else None
        for name, weight in updated(model, actual.gradients).items():
            about = f"new weight {name}: "
            torch.testing.assert_close(
                actual.weights[name], weight, equal_nan=True, msg=lambda t, a=about: a + t
            )
        return facts
