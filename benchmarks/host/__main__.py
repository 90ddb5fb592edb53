"""Measures the host's part of a training step (forward, backward, AdamW): eager's and lazuli's.

What the device computes is waited for between the parts and not counted, as far as the host does
not compute it itself: eager on a CPU does, in its kernels, so the narrow model is the one that
compares hosts there. lazuli's part is split by where its time goes; what is on no account is
Python's and torch's dispatcher's. Medians over interleaved rounds in one process. Dropout is as
each model's configuration has it.
"""

import statistics
import time
from collections import defaultdict

import torch

from benchmarks import harness
from benchmarks.models import steps, zoo

WARM_UP = 5
PHASES = ("forward", "backward", "update")
# Part of recording a step; running what was recorded is not.
ACCOUNTS = ("recording", "autograd", "ending traces")


def accounts(arm: str) -> dict[str, float]:
    """Seconds by account up to now."""
    return torch.lazuli.metrics()["host_seconds"] if arm == "lazuli" else {}


class Measured:
    """A model in training on one arm, and the seconds that its steps' phases took."""

    def __init__(self, name: str, arm: str, conditions: steps.Conditions):
        self.arm = arm
        self.forward, self.optimizer = steps.make_training(name, arm, conditions)
        self.seconds = defaultdict(list)  # by phase and account; account None: all

    def step(self, keep: bool) -> None:
        loss = None

        def forward() -> None:
            nonlocal loss
            loss = self.forward()

        def update() -> None:
            self.optimizer.step()
            self.optimizer.zero_grad()

        phases = {"forward": forward, "backward": lambda: loss.backward(), "update": update}
        for phase in PHASES:
            before = accounts(self.arm)
            begin = time.perf_counter()
            phases[phase]()
            spent = time.perf_counter() - begin
            after = accounts(self.arm)
            own = {name: after[name] - before[name] for name in after}
            if not harness.on_gpu():  # there another thread does it
                spent -= own.get("running", 0.0)
            if keep:
                self.seconds[phase, None].append(spent)
                for name in ACCOUNTS if own else ():
                    self.seconds[phase, name].append(own[name])
        harness.synchronize(self.arm)

    def ms(self, phase: str, account: str | None = None) -> float:
        return statistics.median(self.seconds[phase, account]) * 1e3


def compare(name: str, arguments) -> list[dict[str, object]]:
    """The model's rows of the table: a phase each, and the whole step."""
    conditions = steps.Conditions.of(arguments)
    arms = {arm: Measured(name, arm, conditions) for arm in ("eager", "lazuli")}
    for measured in arms.values():
        for _ in range(WARM_UP):
            measured.step(keep=False)
    for arm in harness.in_turns(list(arms), arguments.rounds):
        for _ in range(arguments.steps):
            arms[arm].step(keep=True)

    rows = []
    for phase in PHASES:
        eager, lazuli = arms["eager"].ms(phase), arms["lazuli"].ms(phase)
        split = {account: arms["lazuli"].ms(phase, account) for account in ACCOUNTS}
        rows.append(
            {"model": name, "phase": phase, "eager ms": eager, "lazuli ms": lazuli}
            | {"share": lazuli / eager, "Python and dispatch": lazuli - sum(split.values())}
            | split
        )
    total = {key: sum(row[key] for row in rows) for key in rows[0] if key not in ("model", "phase")}
    total["share"] = total["lazuli ms"] / total["eager ms"]
    dropped = {"dropout": conditions.dropout_of(name)}
    return [row | dropped for row in [*rows, {"model": name, "phase": "step"} | total]]


def main() -> None:
    parser = harness.argument_parser("host", __doc__)
    parser.add_argument("--models", nargs="+", choices=list(zoo.MODELS), help="which")
    parser.add_argument("--steps", type=int, default=5, help="steps in each turn")
    steps.Conditions.add_options(parser)
    arguments = parser.parse_args()
    harness.start(arguments)
    rows = []
    with torch.lazuli.config.patch(time_host=True):
        for name in arguments.models or zoo.FOR_HOST[arguments.device]:
            print(f"[host] {name} ...", flush=True)
            rows += compare(name, arguments)
    print()
    harness.print_table(rows)
    harness.save(arguments.json, rows)


if __name__ == "__main__":
    main()
