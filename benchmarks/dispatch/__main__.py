"""Measures what dispatching or recording one op costs, on cpu (eager) and on lazuli.

From C++ the loop is in the plugin, so that Python's own cost is not in it; from Python it is a
plain `for` loop. Calls form chains of 100, as programs do, so that what is kept for backward lives
on for a while; "one call" repeats a call on the same leaf and drops its result each time. The
operands are small: eager's kernel time is in its figures, as a user has it. Backward is timed
alone, from the call on the loss until it returns. `histc` stands for external calls: lazuli has no
kernel for it.
"""

import time
from collections.abc import Callable

import torch

from benchmarks import harness

SHAPE = (4, 4)
CHAIN = 100
ONE_CALL = ", one call"
FROM_CPP = ("add", "add, one call", "mul", "add_", "sin", "mm", "view", "histc")
FROM_PYTHON: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "a + b": lambda a, b: a + b,
    "a * b": lambda a, b: a * b,
    "a * 2.0": lambda a, b: a * 2.0,
    "a.sin()": lambda a, b: a.sin(),
    "a @ b": lambda a, b: a @ b,
    "a.view(-1)": lambda a, b: a.view(-1),
    "a.add_(b)": lambda a, b: a.add_(b),
}
# lazuli's cost as a share of eager's that must not be exceeded, by (level, op, gradients).
GOALS = {
    ("C++", "add", False): 0.40,
    ("Python", "a + b", False): 0.65,
    ("C++", "add", True): 0.35,
    ("C++", "add, one call", False): 0.40,
    ("C++", "add, one call", True): 0.60,
    ("Python", "a + b", True): 0.60,
    ("backward", "chain, a node", True): 0.25,
    ("backward", "MLP", True): 0.30,
}


def operands(device: str, gradients: bool, in_place: bool) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    a, b = torch.rand(SHAPE).to(device), torch.rand(SHAPE).to(device)
    # An in-place op on a leaf that requires gradients is an error: its other operand does.
    (b if in_place else a).requires_grad_(gradients)
    return a, b


def measure_cpp(op: str, device: str, gradients: bool, iterations: int) -> float:
    a, b = operands(device, gradients, op.endswith("_"))
    with torch.set_grad_enabled(gradients):
        chain = 1 if op.endswith(ONE_CALL) else CHAIN
        return torch.ops.lazuli._benchmark(op.removesuffix(ONE_CALL), a, b, iterations, chain)


def measure_python(op: str, device: str, gradients: bool, iterations: int) -> float:
    a, b = operands(device, gradients, "_(" in op)
    function = FROM_PYTHON[op]
    with torch.set_grad_enabled(gradients):
        chains = -(-iterations // CHAIN)
        begin = time.perf_counter_ns()
        for _ in range(chains):
            t = a
            for _ in range(CHAIN):
                t = function(t, b)
        return (time.perf_counter_ns() - begin) / (chains * CHAIN)


def chain_of_100(device: str) -> Callable[[], float]:
    """Nanoseconds a node of the backward of a chain of tiny tensors."""
    a, b = operands(device, gradients=True, in_place=False)

    def backward() -> float:
        t = a
        for i in range(CHAIN):
            t = t + b if i % 2 else t * b
        nanoseconds = time_backward(t.sum()) / (CHAIN + 1)
        a.grad = None
        return nanoseconds

    return backward


def small_mlp(device: str) -> Callable[[], float]:
    """Nanoseconds for the backward of a network of six layers of 8 x 8."""
    torch.manual_seed(0)
    weights = [torch.rand(8, 8).to(device).requires_grad_() for _ in range(6)]
    biases = [torch.rand(8).to(device).requires_grad_() for _ in range(6)]
    x = torch.rand(4, 8).to(device)

    def backward() -> float:
        t = x
        for w, b in zip(weights, biases, strict=True):
            t = torch.tanh(t @ w + b)
        nanoseconds = time_backward((t * t).sum())
        for p in weights + biases:
            p.grad = None
        return nanoseconds

    return backward


def time_backward(loss: torch.Tensor) -> float:
    begin = time.perf_counter_ns()
    loss.backward()
    return time.perf_counter_ns() - begin


BACKWARD = {"chain, a node": chain_of_100, "MLP": small_mlp}


def measurement(
    level: str, op: str, gradients: bool, iterations: int
) -> Callable[[str], Callable[[], float]]:
    """What makes, for a device, the function that measures once."""
    if level == "backward":
        return BACKWARD[op]
    measure = measure_cpp if level == "C++" else measure_python
    return lambda device: lambda: measure(op, device, gradients, iterations)


def compare(level: str, op: str, gradients: bool, rounds: int, iterations: int) -> dict:
    """One row: medians of interleaved rounds."""
    make = measurement(level, op, gradients, iterations)
    functions = {device: make(device) for device in ("cpu", "lazuli")}
    times: dict[str, list[float]] = {device: [] for device in functions}
    for number in range(rounds + 1):
        for device, values in times.items():
            nanoseconds = functions[device]()
            torch.lazuli.synchronize()
            if number:  # the first round warms up
                values.append(nanoseconds)
    median = harness.medians(times)
    share = median["lazuli"] / median["cpu"]
    goal = GOALS.get((level, op, gradients))
    return {
        "from": level,
        "op": op,
        "gradients": "yes" if gradients else "no",
        "eager ns": median["cpu"],
        "lazuli ns": median["lazuli"],
        "share": share,
        "goal": "" if goal is None else f"{goal:.2f} {'met' if share <= goal else 'MISSED'}",
    }


def main() -> None:
    parser = harness.argument_parser("dispatch", __doc__)
    parser.set_defaults(arms=["eager", "lazuli"], threads=1)
    parser.add_argument("--iterations", type=int, default=500, help="ops in each turn")
    arguments = parser.parse_args()
    harness.start(arguments)
    rows = []
    for gradients in (False, True):
        for level, ops in (("C++", FROM_CPP), ("Python", FROM_PYTHON)):
            for op in ops:
                rows.append(compare(level, op, gradients, arguments.rounds, arguments.iterations))
    # One backward is short beside a thousand calls.
    rows += [compare("backward", what, True, 10 * arguments.rounds, 0) for what in BACKWARD]
    harness.print_table(rows)
    harness.save(arguments.json, rows)


if __name__ == "__main__":
    main()
