"""The smallest program that still fails in the same way: delta debugging, then simpler statements.

A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing input" (2002): take parts
away, halves first and then ever smaller ones, as long as what is left fails.
"""

import time
from collections.abc import Callable

from fuzz.program import Program
from fuzz.simplify import simpler

SECONDS = 60


class Shrinker:
    def __init__(self, fails: Callable[[Program], bool], seconds: float = SECONDS):
        self.fails, self.end = fails, time.monotonic() + seconds
        self.tried: set = set()

    def accepts(self, candidate: Program) -> bool:
        key = (candidate.statements, candidate.turns, candidate.watched, candidate.held)
        if key in self.tried or time.monotonic() > self.end:
            return False
        self.tried.add(key)
        return self.fails(candidate)

    def shrink(self, program: Program) -> Program:
        """Until nothing more can go, or time is up."""
        while True:
            before = program
            program = self.plainer(program)
            program = self.fewer(program)
            program = self.simpler(program)
            if program == before or time.monotonic() > self.end:
                return program

    def plainer(self, program: Program) -> Program:
        """Without what is around the statements."""
        for change in (
            {"turns": 1},
            {"turns": 2},
            {"held": False},
            {"watched": False},
            {"histories": False},
        ):
            candidate = program.replaced(**change)
            if (
                candidate.turns <= program.turns
                and candidate != program
                and self.accepts(candidate)
            ):
                program = candidate
        return program

    def fewer(self, program: Program) -> Program:
        """With fewer statements; from the end, for later ones depend on earlier ones."""
        size = max(1, len(program.statements) // 2)
        while size:
            i = len(program.statements)
            while i > 0:
                left = program.statements[: max(0, i - size)] + program.statements[i:]
                candidate = program.replaced(statements=left)
                if left and self.accepts(candidate):
                    program = candidate
                i -= size
            size //= 2
        return program

    def simpler(self, program: Program) -> Program:
        """With simpler statements, one after the other."""
        i = 0
        while i < len(program.statements):
            for text in simpler(program.statements[i]):
                changed = (*program.statements[:i], *text, *program.statements[i + 1 :])
                candidate = program.replaced(statements=changed)
                if self.accepts(candidate):
                    program = candidate
                    break
            else:
                i += 1
        return program
