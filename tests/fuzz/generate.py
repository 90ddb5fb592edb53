"""Makes program k of a run: the same for the same seed, number and length."""

import random

import torch

from fuzz import steering
from fuzz.builder import Builder
from fuzz.program import Program
from fuzz.steps import autograd, call, create, memory, modules, random_ops, reads, views

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


def aimed(b: Builder, producer: str, consumer: str):
    """One operator, and another on its result."""
    for name in call.call(b, producer)[:1]:
        if isinstance(b.namespace.get(name), torch.Tensor):
            call.call(b, consumer, first=name)


def generate(seed: int, k: int, length: int = 20, alone: bool = True) -> tuple[Program, list]:
    """The program, and the pairs of operators that it has.

    `alone`: no other program runs at the same time, so random numbers are the same each time.
    """
    rng = random.Random(f"{seed}/{k}")
    b = Builder(rng, alone)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        statements = filled(b, rng, seed, k, length)
    shape = random.Random(f"{seed}/{k}/shape")
    program = Program(
        tuple(statements),
        name=f"{seed}/{k}",
        turns=shape.choice([1, 1, 2, 2, 3]),
        watched=shape.random() < 0.5,
        held=shape.random() < 0.3,
        histories=shape.random() < 0.3,
    )
    return program, sorted(b.pairs)


def filled(b: Builder, rng: random.Random, seed: int, k: int, length: int) -> list[str]:
    weights = {**STEPS, **(WITH_GRADIENTS if b.wants_grad else {})}
    size = rng.randint(max(4, length // 2), length)
    for _ in range(3):
        create.create(b)
    aims = steering.targets(seed, k)
    while len(b.statements) < size:
        if aims and rng.random() < 0.7:
            aimed(b, *aims.pop())
        else:
            step = rng.choices(list(weights), weights.values())[0]
            step(b)
    return b.statements[: size + 4]
