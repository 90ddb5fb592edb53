"""Measures fused computations at several sizes: eager, torch.compile and lazuli.

GB/s counts the bytes that a perfect kernel has to move: every operand read once, every result
written once. On a CPU a result is waited for in every call. On a GPU some calls' results are kept
and waited for together, on every arm, so each call writes memory of its own. Each call ends with
an event: without it, lazuli would see that the calls are the same, and compute one. A
device-to-device copy of the same bytes is measured beside them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from benchmarks import harness, turns


@dataclass
class Case:
    """A computation with its operands on some device."""

    function: Callable
    operands: list[torch.Tensor]
    bytes_moved: int


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def gelu_of_product(rows: int, columns: int) -> Case:
    a, b, c = (torch.randn(rows, columns) for _ in range(3))
    return Case(lambda a, b, c: functional.gelu(a * b + c), [a, b, c], 4 * _bytes(a))


def gelu_backward(rows: int, columns: int) -> Case:
    """The gradients of x and of b behind gelu(x + b)."""
    x, grad, b = torch.randn(rows, columns), torch.randn(rows, columns), torch.randn(columns)

    def backward(grad, x, b):
        gradient = torch.ops.aten.gelu_backward(grad, x + b)
        return gradient, gradient.sum(0)

    return Case(backward, [grad, x, b], 3 * _bytes(x))


def softmax(rows: int, columns: int) -> Case:
    x = torch.randn(rows, columns)
    return Case(lambda x: functional.softmax(x, -1), [x], 2 * _bytes(x))


def layer_norm(rows: int, columns: int) -> Case:
    x, w, b = torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)
    return Case(
        lambda x, w, b: functional.layer_norm(x, (columns,), w, b), [x, w, b], 2 * _bytes(x)
    )


def layer_norm_backward(rows: int, columns: int) -> Case:
    x, grad, w, b = torch.randn(rows, columns), torch.randn(rows, columns), *torch.randn(2, columns)
    mean, rstd = x.mean(1, keepdim=True), 1 / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()

    def backward(grad, x, mean, rstd, w, b):
        return torch.ops.aten.native_layer_norm_backward(
            grad, x, (columns,), mean, rstd, w, b, [True, True, True]
        )

    return Case(backward, [grad, x, mean, rstd, w, b], 3 * _bytes(x))


def adamw(rows: int, columns: int) -> Case:
    """One AdamW update of a parameter, with a learning rate that is a number."""
    parameter, grad, mean, square = (torch.rand(rows, columns) for _ in range(4))

    def update(parameter, grad, mean, square):
        parameter.mul_(1 - 1e-4)
        mean.lerp_(grad, 0.1)
        square.mul_(0.999).addcmul_(grad, grad, value=0.001)
        parameter.addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-3)
        return parameter

    return Case(update, [parameter, grad, mean, square], 7 * _bytes(parameter))


def gated(rows: int, columns: int) -> Case:
    """A gated linear unit behind a bias."""
    x, b = torch.randn(rows, columns), torch.randn(columns)
    return Case(lambda x, b: functional.glu(x + b, -1), [x, b], _bytes(x) * 3 // 2)


def distillation(rows: int, columns: int) -> Case:
    """How far a student's distribution is from its teacher's."""
    student, teacher = torch.randn(rows, columns), torch.randn(rows, columns)

    def loss(student, teacher):
        target = functional.softmax(teacher, -1)
        return functional.kl_div(functional.log_softmax(student, -1), target, reduction="batchmean")

    return Case(loss, [student, teacher], 2 * _bytes(student))


def transpose(rows: int, columns: int) -> Case:
    x = torch.randn(rows, columns)
    return Case(lambda x: x.t().contiguous(), [x], 2 * _bytes(x))


def permute_heads(rows: int, columns: int) -> Case:
    """Attention heads [batch, head, position, feature] brought together at each position."""
    heads, features = columns // 64, 64
    x = torch.randn(max(1, rows // 128), heads, min(rows, 128), features)
    return Case(lambda x: x.permute(0, 2, 1, 3).contiguous(), [x], 2 * _bytes(x))


def transposed_sum(rows: int, columns: int) -> Case:
    x, y = torch.randn(rows, columns), torch.randn(columns, rows)
    return Case(lambda x, y: x + y.t(), [x, y], 3 * _bytes(x))


def column_sum(rows: int, columns: int) -> Case:
    x = torch.randn(rows, columns)
    return Case(lambda x: x.sum(0), [x], _bytes(x))


CASES = {
    "gelu(a*b+c)": gelu_of_product,
    "gelu backward": gelu_backward,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "layer_norm backward": layer_norm_backward,
    "adamw": adamw,
    "glu(x + b)": gated,
    "kl_div": distillation,
    "transpose": transpose,
    "x + y.t()": transposed_sum,
    "permute heads": permute_heads,
    "column sum": column_sum,
}
SIZES = {
    "cpu": [(64, 256), (512, 768), (2048, 1024), (8192, 2048)],
    "cuda": [(2048, 1024), (16384, 1024), (65536, 1024)],  # the last two have 64 MiB and more
}
KEPT_BYTES = 8 * 2**30  # on a GPU, in one turn
# Of 8x12x128x64, BERT's attention on a batch of eight, besides.
OTHER_SIZES = {("permute heads", "cpu"): [(1024, 768)]}


def step_of(arm: str, case: Case) -> Callable[[], object]:
    """A call that computes the case on the arm; on a CPU it waits for the result."""
    operands = [operand.clone().to(harness.device_of(arm)) for operand in case.operands]
    function = harness.compiled(arm, case.function)
    event = torch.Event(harness.device_of(arm)) if harness.on_gpu() else None

    @torch.no_grad()
    def step():
        result = function(*operands)
        if event:
            event.record()
        else:
            harness.synchronize(arm)
        return result

    return step


def largest_difference(results: dict[str, object]) -> float:
    """How far the arms' results are from eager's, in units of eager's largest number."""

    def parts(result) -> list[torch.Tensor]:
        return [part.cpu() for part in (result if isinstance(result, tuple) else (result,))]

    expected = parts(results["eager"])
    return max(
        ((got - want).abs().max() / want.abs().max()).item()
        for result in results.values()
        for got, want in zip(parts(result), expected, strict=True)
    )


def compare(name: str, rows: int, columns: int, arms: list[str], rounds: int) -> dict:
    """One row of the table."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    case = CASES[name](rows, columns)
    steps = {arm: step_of(arm, case) for arm in arms}
    results = {arm: step() for arm, step in steps.items()}
    difference = largest_difference(results) if "eager" in results else None
    del results
    for step in steps.values():
        step()
        step()
    median = medians(steps, rounds, case.bytes_moved)
    row: dict[str, object] = {"kernel": name, "size": f"{rows}x{columns}"}
    row |= {f"{arm} us": seconds * 1e6 for arm, seconds in median.items()}
    row |= {f"{arm} GB/s": case.bytes_moved / seconds / 1e9 for arm, seconds in median.items()}
    if "lazuli" in median:
        row |= {f"{arm}/lazuli": median[arm] / median["lazuli"] for arm in arms if arm != "lazuli"}
    if harness.on_gpu():
        row["copy GB/s"] = copy_bandwidth(case.bytes_moved // 2)
        row["of copy"] = row["lazuli GB/s"] / row["copy GB/s"] if "lazuli" in median else None
    return row | {"difference": difference}


def medians(steps: dict[str, Callable], rounds: int, bytes_moved: int) -> dict[str, float]:
    """Seconds of a call, by arm."""
    if harness.on_gpu():
        calls = max(5, min(50, KEPT_BYTES // bytes_moved))
        return turns.take_turns(steps, rounds, calls, turns.wait).medians()
    calls = max(3, min(50, 50_000_000 // bytes_moved))
    return harness.medians(harness.time_interleaved(steps, rounds, calls))


def copy_bandwidth(size: int) -> float:
    """GB/s of copying `size` bytes on the GPU, counted as read and written."""
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copies = turns.take_turns({"eager": lambda: target.copy_(source)}, 5, 50, turns.wait)
    return 2 * size / min(copies.seconds["eager"]) / 1e9


def main() -> None:
    parser = harness.argument_parser("kernels", __doc__)
    parser.add_argument(
        "--kernels", nargs="+", choices=list(CASES), default=list(CASES), help="which"
    )
    arguments = parser.parse_args()
    harness.start(arguments)
    rows = []
    for name in arguments.kernels:
        others = OTHER_SIZES.get((name, arguments.device), [])
        for size in SIZES[arguments.device] + others:
            print(f"[kernels] {name} {size[0]}x{size[1]} ...", flush=True)
            rows.append(compare(name, *size, arguments.arms, arguments.rounds))
    print()
    harness.print_table(rows)
    harness.save(arguments.json, rows)


if __name__ == "__main__":
    main()
