"""One step of a model on one arm, and what its first step costs."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from benchmarks import harness, turns
from benchmarks.models import heads, zoo

MODES = ("infer", "train")
MEASURED_STEPS = 5
INDUCTOR_CACHE = "TORCHINDUCTOR_CACHE_DIR"
Step = Callable[[], torch.Tensor]


def _make_forward(name: str, mode: str, arm: str, float32: bool) -> tuple[torch.nn.Module, Step]:
    """The model, and a function that computes what it gives; the same numbers on every arm.

    On a GPU that runs under bfloat16 autocast, unless `float32`.
    """
    torch.manual_seed(0)
    model, make_batch = zoo.MODELS[name]()
    batch = make_batch()
    if mode == "infer":
        model, batch = heads.Inference(model), heads.without_labels(batch)
    device = harness.device_of(arm)
    batch = {key: value.to(device) for key, value in batch.items()}
    model = model.to(device).train(mode == "train")
    without_dropout(model)
    run = harness.compiled(arm, model)
    narrow = harness.on_gpu() and not float32

    def forward() -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=narrow):
            return heads.result_of(run(**batch))

    return model, forward


def make_step(name: str, mode: str, arm: str, float32: bool = False) -> Step:
    """A function that does one step and returns scores or, in training, the loss.

    On a GPU it runs under bfloat16 autocast, unless `float32`.
    """
    if mode == "infer":
        return torch.no_grad()(_make_forward(name, mode, arm, float32)[1])

    forward, optimizer = make_training(name, arm, float32)

    def train() -> torch.Tensor:
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train


def make_training(name: str, arm: str, float32: bool) -> tuple[Step, torch.optim.Optimizer]:
    """A function that computes the loss, and AdamW for the model's parameters."""
    model, forward = _make_forward(name, "train", arm, float32)
    return forward, torch.optim.AdamW(model.parameters(), lr=1e-4)


def without_dropout(model: torch.nn.Module) -> None:
    """Takes randomness out, so that the arms' losses can be compared."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout_prob", None), float):
            module.dropout_prob = 0.0


def measure_cold(name: str, mode: str, arm: str, float32: bool) -> dict[str, float]:
    """The first step's seconds and the memory a few steps take, in this process."""
    step = make_step(name, mode, arm, float32)
    with harness.peak_memory() as memory:
        begin = time.perf_counter()
        turns.read(arm, [step()])
        first = time.perf_counter() - begin
        for _ in range(MEASURED_STEPS - 1):
            turns.read(arm, [step()])
    return {"first_step_s": first, "peak_memory_mb": memory["peak"] / 2**20}


def measure_cold_elsewhere(
    name: str, mode: str, arm: str, arguments, caches: str
) -> dict[str, float]:
    """`measure_cold` in a new process, whose caches on disk are in the empty folder `caches`.

    Raises RuntimeError with the process's output if it fails.
    """
    command = [sys.executable, "-m", "benchmarks.models", "--cold", name, mode, arm]
    options = ["--threads", str(arguments.threads), "--device", arguments.device]
    options += ["--float32"] if arguments.float32 else []
    done = subprocess.run(
        [*command, *options],
        cwd=harness.ROOT,
        env=os.environ | {"LAZULI_CACHE_DIR": caches, INDUCTOR_CACHE: caches},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
