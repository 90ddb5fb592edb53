"""Trains models on cpu and on lazuli in reference mode, and says where they differ by a bit.

Run with LAZULI_KERNELS=eager, a number of threads and the models' names; the last line is JSON: by
model, what differs. With --shadow it trains on lazuli alone, with its own kernels, each trace a
second time by torch's, and says what that reports. With --whole batches have their usual size and
detectors take as many steps as the others. `diffusion` needs the package diffusers. The status is 1
where something differs.
"""

import argparse
import contextlib
import json
import sys
import warnings
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.models import heads, zoo

STEPS = 10


class Recurrent(nn.Module):
    """Two layers with dropout between them, over a sequence or a packed one."""

    def __init__(self, kind: str, packed: bool = False, **options):
        super().__init__()
        self.units = getattr(nn, kind)(8, 16, num_layers=2, dropout=0.3, **options)
        self.head = nn.Linear(32 if options.get("bidirectional") else 16, 4)
        self.packed = packed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.packed:
            x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([7, 5, 5, 2]))
        y, _ = self.units(x)
        if self.packed:
            y, _ = nn.utils.rnn.pad_packed_sequence(y)
        return self.head(y).flatten(0, 1)


def ssd() -> nn.Module:
    from torchvision.models import detection

    return detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=4
    )


def faster_rcnn() -> nn.Module:
    from torchvision.models import detection, mobilenet_v2

    backbone = mobilenet_v2(weights=None).features[:7]
    backbone.out_channels = 32
    anchors = detection.rpn.AnchorGenerator(((16, 32, 64),), ((0.5, 1.0, 2.0),))
    return detection.FasterRCNN(
        backbone,
        num_classes=4,
        rpn_anchor_generator=anchors,
        min_size=96,
        max_size=128,
        rpn_pre_nms_top_n_train=200,
        rpn_post_nms_top_n_train=50,
    )


RECURRENT = {
    "rnn": lambda: Recurrent("RNN"),
    "gru-bidirectional": lambda: Recurrent("GRU", bidirectional=True),
    "gru-packed": lambda: Recurrent("GRU", packed=True, bidirectional=True),
    "lstm": lambda: Recurrent("LSTM"),
    "lstm-packed": lambda: Recurrent("LSTM", packed=True, bidirectional=True),
}


def diffusion() -> nn.Module:
    """Predicts the noise in an image, given how noisy it is."""
    from diffusers import UNet2DModel

    return UNet2DModel(
        sample_size=16,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )


DETECTORS = {"ssd": ssd, "faster-rcnn": faster_rcnn}


def loss_of_detector(model: nn.Module, where: str) -> torch.Tensor:
    images = [torch.rand(3, 96, 112).to(where) for _ in range(2)]
    target = {
        "boxes": torch.tensor([[10.0, 10, 50, 60], [30, 20, 90, 80]]).to(where),
        "labels": torch.tensor([1, 2]).to(where),
    }
    return sum(model(images, [target, target]).values())


def loss_of_diffusion(model: nn.Module, where: str) -> torch.Tensor:
    images, noise = (torch.randn(2, 3, 16, 16).to(where) for _ in range(2))
    times = torch.tensor([3, 700]).to(where)
    share = torch.tensor([0.9, 0.1]).to(where).view(2, 1, 1, 1)
    noisy = share.sqrt() * images + (1 - share).sqrt() * noise
    return nn.functional.mse_loss(model(noisy, times).sample, noise)


def loss_of(output: object) -> torch.Tensor:
    """The model's own loss, or one made of its scores."""
    if isinstance(output, torch.Tensor) and output.dim():
        return nn.functional.cross_entropy(output, output.detach().argmin(1))
    return heads.result_of(output)


def build(name: str, whole: bool):
    """The model, and what gives its loss on a device."""
    if name in DETECTORS:
        model = DETECTORS[name]()
        return model, lambda where: loss_of_detector(model, where)
    if name == "diffusion":
        model = diffusion()
        return model, lambda where: loss_of_diffusion(model, where)
    if name in RECURRENT:
        model, batch = RECURRENT[name](), lambda: {"x": torch.randn(7, 4, 8)}
    else:
        model, batch = zoo.MODELS[name]()
        size = None if whole else 2
        batch = lambda make=batch: {key: value[:size] for key, value in make().items()}  # noqa: E731
    return model, lambda where: loss_of(
        model(**{key: value.to(where) for key, value in batch().items()})
    )


def train(name: str, where: str, options) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model, loss_on = build(name, options.whole)
    model.to(where).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seen = {}
    few = options.autocast or (name in DETECTORS and not options.whole)
    for step in range(options.steps or (2 if few else STEPS)):
        with torch.autocast(where, torch.bfloat16, enabled=options.autocast):
            loss = loss_on(where)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen[f"loss {step}"] = loss.detach()
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            seen[f"gradient of {key}"] = parameter.grad
    seen |= {key: value.detach() for key, value in model.state_dict().items()}
    return {key: value.cpu() for key, value in seen.items()}


def other_than_eagers(name: str, options) -> list[str]:
    eager, ours = (train(name, where, options) for where in ("cpu", "lazuli"))
    assert eager.keys() == ours.keys()
    return [key for key in eager if not torch.equal(eager[key], ours[key])]


def seen_by_shadows(name: str, options) -> list[str]:
    action = "raise" if options.first else "warn"
    with (
        warnings.catch_warnings(),
        contextlib.suppress(torch.lazuli.ShadowMismatch),
        torch.lazuli.shadow(action=action) as found,
    ):
        warnings.simplefilter("ignore")
        train(name, "lazuli", options)
    print(f"{name}: {found.traces} traces, {len(found.reports)} reports", file=sys.stderr)
    for report in found.reports:
        print(f"shadow of {name}: {report.op} at {report.line}", file=sys.stderr)
    return [report.text for report in found.reports]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("threads", type=int)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--autocast", action="store_true", help="in bfloat16, two steps")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--shadow", action="store_true")
    parser.add_argument("--first", action="store_true", help="nothing after the first difference")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    differences = seen_by_shadows if options.shadow else other_than_eagers
    found = {}
    for name in options.names:
        found[name] = differences(name, options)
        if options.first and found[name]:
            break
    print(json.dumps(found))
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
