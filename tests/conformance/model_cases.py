"""The cases of the model suite, `library/kind/architecture` each.

A model with random weights takes a step on cpu and on lazuli: forward, backward, AdamW. The loss,
the gradients and the buffers are eager's. A tensor that differs by more than usual is excused only
if eager itself is that sensitive: weights moved by one unit of their last place, up or down by
chance, move eager's tensor a third as far at least, in one of a few such runs. Where sixteen do
not, the difference has to be gone with most weights that are moved so on both devices. All of these
numbers are facts of the case. Agreement in float64 excuses nothing: it is asked besides, where
eager moves so far that this says little. The new weights are those that eager's AdamW makes of the
old ones and these gradients, for its first step divides a gradient by itself, whatever is left of
it.
"""

import copy
import dataclasses
import functools
import statistics
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
FEW, MANY = 4, 16  # runs of eager's with weights moved by one unit of their last place
PAIRS = 5  # of steps on both devices, with the same moved weights
SENSITIVE = 1e-2  # where eager moves by more than this part, float64 is compared too
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


def moved(t: torch.Tensor, source: torch.Generator) -> torch.Tensor:
    """Each number one unit of its last place up or down."""
    up = torch.rand(t.shape, generator=source) < 0.5
    next_one = torch.where(up, torch.inf, -torch.inf).to(t.dtype)
    return torch.where(t == 0, t, torch.nextafter(t, next_one))


def take_step(model, batch, device: str, seed: int | None = None) -> Step:
    """A step; with a seed, of weights that are moved by one unit of their last place."""
    model = copy.deepcopy(model).to(device)
    batch = tree_map(lambda t: t.to(device) if isinstance(t, torch.Tensor) else t, batch)
    parameters = dict(model.named_parameters())
    if seed is not None:
        source = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in parameters.values():
                p.copy_(moved(p.cpu(), source))
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


def explained(model, batch, expected: Step, found: dict) -> dict:
    """Asserts that eager itself moves as far as what was found; says how far both are off."""
    own = dict.fromkeys(found, 1e-30)
    for runs in range(1, MANY + 1):
        one = differences(take_step(model, batch, "cpu", runs), expected)
        own = {name: max(own[name], one[name]) for name in found}
        worst = max(found, key=lambda name: found[name] / own[name])
        if runs >= FEW and found[worst] <= EASY * own[worst]:
            break
    most = max(own.values())
    facts = {"tensor": worst, "difference": found[worst], "eager": own[worst]}
    facts |= {"eager_most": most, "runs": runs}
    if found[worst] > EASY * own[worst]:
        assert most > SENSITIVE, (
            f"{worst} differs by {found[worst]:.2g}, and eager's own moves by {own[worst]:.2g}"
        )
        facts["elsewhere"] = elsewhere(model, batch, expected, found, own)[worst]
    if most > SENSITIVE:
        model, batch = copy.deepcopy(model).double(), tree_map(widened, batch)
        exact = differences(take_step(model, batch, "lazuli"), take_step(model, batch, "cpu"))
        name = max(exact, key=exact.get)
        facts["float64"] = exact[name]
        assert exact[name] <= TOLERANCE_64, f"{name} differs by {exact[name]:.2g} in float64"
    return facts


def elsewhere(model, batch, expected: Step, found: dict, own: dict) -> dict:
    """Asserts that the difference goes where the weights move alike on both devices, mostly.

    One box on the other side of a threshold is rare, and moves a detector far. What is wrong stays;
    and what is wrong in a first step only would not be there again.
    """
    again = differences(take_step(model, batch, "lazuli"), expected)
    for name, value in found.items():
        assert again[name] >= value / 2, f"{name} differs by {value:.2g}, then by {again[name]:.2g}"
    pairs = [
        differences(take_step(model, batch, "lazuli", s), take_step(model, batch, "cpu", s))
        for s in range(1, PAIRS + 1)
    ]
    middle = {name: statistics.median(one[name] for one in pairs) for name in found}
    for name, value in middle.items():
        assert value <= EASY * own[name], (
            f"{name} differs by {found[name]:.2g}, by {value:.2g} with most weights, "
            f"and eager's own moves by {own[name]:.2g}"
        )
    return middle


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
