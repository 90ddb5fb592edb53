"""The fixed sample of programs that runs with the tests, in parts of a second or two."""

import contextlib
import functools
import os
from pathlib import Path

import pytest
import torch

from fuzz import known_differences, oracle
from fuzz.generate import generate
from fuzz.script import script

SEED, PROGRAMS, PART = 2026, 500, 25
HALVES = range(0, PROGRAMS // 2, PART), range(PROGRAMS // 2, PROGRAMS, PART)
DEFECTS = Path(__file__).with_name("known_defects.txt")


@functools.cache
def known_defects() -> dict[int, str]:
    """The programs that fail today, with the reason."""
    lines = [line.split(" | ") for line in DEFECTS.read_text().splitlines() if line[0] != "#"]
    return {int(k): reason for k, reason in lines}


@contextlib.contextmanager
def no_kernels_for_gpus():
    """Their kernels are thousands: to make each for a GPU too would take longer than they."""
    folder = os.environ.pop("LAZULI_EMIT_PTX", None)
    try:
        yield
    finally:
        if folder is not None:
            os.environ["LAZULI_EMIT_PTX"] = folder


def run_part(first: int, unplanned: str = "never"):
    """Programs from number `first` on: they agree, save for those that must not yet."""
    settings = torch.lazuli.config.patch(random="eager", unplanned=unplanned)
    with settings, no_kernels_for_gpus():
        for k in range(first, first + PART):
            program, _ = generate(SEED, k)
            difference = oracle.check(program)
            if difference is not None and known_differences.listed(program, difference):
                difference = None
            command = f"tools/fuzz --seed {SEED} --only {k}"
            if k in known_defects():
                assert difference is not None, f"mended, so its line may go: {command}"
            elif difference is not None:
                pytest.fail(f"{command}\n{script(program, difference)}")


def run_about(theme: str, first: int, programs: int, unplanned: str = "never"):
    """The same of programs about a theme, all of which agree."""
    settings = torch.lazuli.config.patch(random="eager", unplanned=unplanned)
    with settings, no_kernels_for_gpus():
        for k in range(first, first + programs):
            program, _ = generate(SEED, k, about=theme)
            difference = oracle.check(program)
            if difference is not None and not known_differences.listed(program, difference):
                command = f"tools/fuzz --about {theme} --seed {SEED} --only {k}"
                pytest.fail(f"{command}\n{script(program, difference)}")
