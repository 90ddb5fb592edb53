"""The settings under which everything has to do the same: each a few environment variables."""

import contextlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PASSES = ("ir/passes/passes.def", "lowering/graph/target_passes.def")
NEEDED = {"decompose", "crop_pads"}  # without them there are rows that have no kernels


def passes() -> list[str]:
    """The graph passes that may be left out."""
    text = "\n".join((ROOT / file).read_text() for file in PASSES)
    names = dict.fromkeys(re.findall(r"^PASS\((\w+),", text, re.MULTILINE))
    return [name for name in names if name not in NEEDED]


PLAIN = "plain"
SETTINGS = {
    PLAIN: {},
    "fusion off": {"LAZULI_FUSION": "0"},
    **{f"{name} off": {"LAZULI_DISABLE_PASSES": name} for name in passes()},
    "all passes off": {"LAZULI_DISABLE_PASSES": ",".join(passes())},
    "op by op": {"LAZULI_UNPLANNED": "always"},
    "planned at once": {"LAZULI_UNPLANNED": "never"},
    "parts": {"LAZULI_TIERS": "parts"},
    "plans": {"LAZULI_TIERS": "plans"},
    "parts for any sizes": {"LAZULI_TIERS": "parts", "LAZULI_OTHER_SIZES": "always"},
    "parts run ahead": {"LAZULI_TIERS": "parts", "LAZULI_RUN_AHEAD": "all"},
    "few traces": {"LAZULI_MAX_TRACES": "4"},
    "short traces": {"LAZULI_MAX_PENDING_OPS": "50"},
    "avx2": {"LAZULI_CPU": "avx2"},
    "bytecode": {"LAZULI_BYTECODE": "always"},
    "no bytecode": {"LAZULI_BYTECODE": "never"},
    "light autograd off": {"LAZULI_LIGHT_AUTOGRAD": "0"},
    "inline backward off": {"LAZULI_INLINE_BACKWARD": "0"},
    "backward not repeated": {"LAZULI_REPEAT_BACKWARD": "off"},
    "poor hash": {"LAZULI_HASH_BITS": "4"},
    "nothing packed": {"LAZULI_MAX_PACKED_BYTES": "0"},
    "reference": {"LAZULI_KERNELS": "eager"},
}
# But for these, settings are of our own kernels, which compute then from the first time on.
for name in SETTINGS.keys() - {PLAIN, "op by op", "reference"}:
    SETTINGS[name]["LAZULI_UNPLANNED"] = "never"

ONE_BY_ONE = "passes off one by one"


def group(setting: str) -> list[str]:
    """The settings of one run: all single passes, or just this one."""
    return [f"{name} off" for name in passes()] if setting == ONE_BY_ONE else [setting]


def under(setting: str, command: list) -> list:
    """The command that runs another under a setting."""
    return ["env", *(f"{name}={value}" for name, value in SETTINGS[setting].items()), *command]


# A worker takes what it costs to start, and to compile what is the same without a pass, only once
# if it runs each case under one setting after the other: such a case's line names its setting, too.


def started(settings: list[str], command: list) -> list:
    """The command that starts a worker for cases under these settings."""
    return under(settings[0] if len(settings) == 1 else PLAIN, command)


def tagged(names, settings: list[str]) -> list[str]:
    """The lines for such a worker."""
    if len(settings) == 1:
        return list(names)
    return [f"{setting}\t{name}" for name in names for setting in settings]


def setting_of(line: str, settings: list[str]) -> tuple[str, str]:
    """The setting and the case of a line."""
    setting, _, name = line.rpartition("\t")
    return setting or settings[0], name


def in_process(setting: str):
    """What a running process does under a setting that leaves out passes; empty: as it is."""
    if not setting:
        return contextlib.nullcontext()
    import torch  # the supervisor needs none

    disabled = SETTINGS[setting]["LAZULI_DISABLE_PASSES"]
    return torch.lazuli.config.patch(disable_passes=disabled)


# Models of each sort that take a second or two.
SAMPLE = (
    "transformers/encoder/bert",
    "transformers/decoder/llama",
    "transformers/mixture/mixtral",
    "transformers/state-space/mamba",
    "transformers/encoder-decoder/t5",
    "timm/convolutional/resnet10t",
    "timm/convolutional/test_convnext",
    "timm/transformer/test_vit",
    "torchvision/convolutional/mobilenet_v3_small",
)

# Of these the tests take a few under each setting.
QUICK = (
    "transformers/decoder/llama",
    "timm/convolutional/resnet10t",
)

# Files of tests that compare with eager, whatever the trace becomes: the samples of OpInfo and of
# TorchCTS among them.
FILES = (
    "tests/backend/test_inplace_views.py",
    "tests/backend/test_nan_and_inf.py",
    "tests/backend/test_type_promotion.py",
    "tests/backend/test_views.py",
    "tests/conformance/test_operators.py",
    "tests/conformance/test_torchcts.py",
)
