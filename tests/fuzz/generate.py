"""Makes program k of a run: the same for the same seed, number and length."""

import random

import torch

from fuzz import steering
from fuzz.builder import LARGEST, Builder
from fuzz.program import Program
from fuzz.steps import autograd, call, create, memory, modules, random_ops, reads, views
from fuzz.themes import THEMES

TURNS = [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 6]  # a trace is planned as a whole the fifth time
LENGTH = 26  # statements of the longest programs, or a few more

STEPS = {  # each with its weight
    call.call: 40,
    create.create: 6,
    views.view: 12,
    memory.write: 14,
    memory.convert: 5,
    memory.storage: 3,
    memory.end: 6,
    reads.read: 4,
    reads.branch: 1,
    reads.loop: 2,
    random_ops.draw: 2,
    autograd.custom: 1,
    autograd.mode: 2,
    autograd.forward_mode: 1,
    autograd.functional: 1,
    modules.module: 2,
    modules.lists: 2,
}
WITH_GRADIENTS = {
    autograd.backward: 8,
    autograd.gradient: 5,
    autograd.hook: 4,
    autograd.custom: 2,
    autograd.zero: 1,
    autograd.take: 2,
    modules.optimize: 4,
}


ABOUT = {  # what a program about a theme has besides
    views.view: 1,
    memory.write: 2,
    memory.end: 1,
    reads.read: 1,
}
ABOUT_GRADIENTS = {
    autograd.backward: 5,
    autograd.gradient: 5,
    autograd.hook: 1,
    autograd.zero: 1,
    autograd.take: 1,
}
THEME_LENGTH, THEME_LENGTHS = 14, {"loops": 3, "large": 8}  # of these a statement takes long
THEME_LARGEST, LARGEST_OF_THEMES = 20000, {"large": 600000}  # elements of a variable


def linked(b: Builder, producer: str, consumer: str, last: str | None) -> str | None:
    """One operator on another's result: on `last`, if that is one. The variable of what it made."""
    if last is None or b.producer.get(last) != producer or not is_tensor(b, last):
        last = next((x for x in operate(b, producer) if is_tensor(b, x)), None)
    if last is None:
        return None
    return next((x for x in operate(b, consumer, last) if is_tensor(b, x)), None)


def operate(b: Builder, name: str, first: str | None = None) -> list[str]:
    return random_ops.bernoulli(b, first) if name == "bernoulli" else call.call(b, name, first)


def is_tensor(b: Builder, name: str) -> bool:
    return isinstance(b.namespace.get(name), torch.Tensor)


def generate(
    seed: int, k: int, length: int = LENGTH, alone: bool = True, about: str = ""
) -> tuple[Program, list]:
    """The program, and the pairs of operators that it has.

    `alone`: no other program runs at the same time, so random numbers are the same each time.
    `about`: a theme (fuzz/themes); empty: any operators.
    """
    rng = random.Random(f"{seed}/{k}")
    largest = LARGEST_OF_THEMES.get(about, THEME_LARGEST) if about else LARGEST
    b = Builder(rng, alone, largest)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        statements = filled_about(b, rng, about) if about else filled(b, rng, seed, k, length)
    shape = random.Random(f"{seed}/{k}/shape")
    program = Program(
        tuple(statements),
        name=f"{seed}/{k}",
        turns=shape.choice(TURNS),
        watched=shape.random() < 0.5,
        held=shape.random() < 0.3,
        histories=shape.random() < 0.3,
    )
    if shape.random() < 0.25:
        program = program.replaced(grows=True, turns=4)
    return program, sorted(pair for pair, i in b.pairs.items() if i < len(statements))


def filled(b: Builder, rng: random.Random, seed: int, k: int, length: int) -> list[str]:
    weights = {**STEPS, **(WITH_GRADIENTS if b.wants_grad else {})}
    size = rng.randint(max(4, length // 2), length)
    for _ in range(3):
        create.create(b)
    aims, last = steering.targets(seed, k), None
    aims.reverse()
    while len(b.statements) < size:
        if aims and rng.random() < 0.8:
            last = linked(b, *aims.pop(), last)
        else:
            step = rng.choices(list(weights), weights.values())[0]
            step(b)
    return b.statements[: size + 4]


def filled_about(b: Builder, rng: random.Random, about: str) -> list[str]:
    """Steps of a theme, twice as many as of what else a program does with their results."""
    theme = THEMES[about]
    more = {**ABOUT, **(ABOUT_GRADIENTS if b.wants_grad else {})}
    size = rng.randint(2, THEME_LENGTHS.get(about, THEME_LENGTH))
    tries = 0
    while len(b.statements) < size and tries < 60:
        tries += 1
        chosen = theme if not b.statements or rng.random() < 0.6 else more
        rng.choices(list(chosen), chosen.values())[0](b)
    return b.statements
