"""One step of a model on one arm."""

from collections.abc import Callable

import torch

from benchmarks import harness
from benchmarks.models import heads, zoo

MODES = ("infer", "train")
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
        _, forward = _make_forward(name, mode, arm, float32)
        return torch.no_grad()(lambda: harness.to_keep(arm, forward()))

    forward, optimizer = make_training(name, arm, float32)

    def train() -> torch.Tensor:
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
        return harness.to_keep(arm, loss)

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
