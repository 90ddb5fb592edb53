"""Compares the losses of ten training steps (AdamW): lazuli's with eager's on the same device.

Of two runs the table has the largest relative difference of a loss. How much of it the model makes
of any rounding error shows where eager's own losses go when the weights begin a rounding error
away, and how far both are from eager's in float64. The columns of bfloat16 (autocast) have the
distances to eager's losses in float32. Nothing is dropped: the arms would draw other numbers.
"""

import torch

from benchmarks import harness
from benchmarks.harness import relative_distance
from benchmarks.models import dropout, heads, zoo

STEPS = 10
ROUNDING = 1e-7  # relative


def train(
    name: str, device: str, dtype: torch.dtype, rate: float, error: float = 0.0
) -> list[float]:
    """Losses of the first steps of a model whose weights are off by a relative `error`.

    dtype bfloat16 is autocast over float32 weights; `rate` is the learning rate.
    """
    torch.manual_seed(0)
    model, make_batch = zoo.MODELS[name]()
    batch = make_batch()
    dropout.remove(model)
    wide = torch.float32 if dtype == torch.bfloat16 else dtype
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + error * torch.randn_like(weight))
    model = model.to(device, wide).train()
    batch = {
        key: value.to(device, wide if value.is_floating_point() else value.dtype)
        for key, value in batch.items()
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = heads.result_of(model(**batch))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(name: str, device: str, rate: float) -> dict[str, object]:
    """One row of the table."""
    eager = train(name, device, torch.float32, rate)
    lazuli = train(name, "lazuli", torch.float32, rate)
    double = train(name, device, torch.float64, rate)
    return {
        "model": name,
        "first loss": eager[0],
        "last loss": eager[-1],
        "lazuli to eager": relative_distance(lazuli, eager),
        "eager, weights off": relative_distance(
            train(name, device, torch.float32, rate, ROUNDING), eager
        ),
        "eager to float64": relative_distance(eager, double),
        "lazuli to float64": relative_distance(lazuli, double),
        "eager bfloat16": relative_distance(train(name, device, torch.bfloat16, rate), eager),
        "lazuli bfloat16": relative_distance(train(name, "lazuli", torch.bfloat16, rate), eager),
    }


def main() -> None:
    parser = harness.argument_parser("losses", __doc__)
    models = [name for names in zoo.DEFAULT.values() for name in names]
    parser.add_argument(
        "--models", nargs="+", choices=models, help="which; the device's own by default"
    )
    parser.add_argument("--rate", type=float, default=1e-4, help="AdamW's learning rate")
    arguments = parser.parse_args()
    harness.start(arguments)
    # Products and convolutions in float32, as it says; cuDNN has another default.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows = []
    for name in arguments.models or zoo.DEFAULT[arguments.device]:
        print(f"[losses] {name} ...", flush=True)
        rows.append(compare(name, arguments.device, arguments.rate))
    print()
    harness.print_table(rows)
    harness.save(arguments.json, rows)


if __name__ == "__main__":
    main()
