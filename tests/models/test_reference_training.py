"""LAZULI_KERNELS=eager: training on lazuli is training on cpu, bit for bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("reference_training.py")
GROUPS = {
    "transformers": ["1", "bert", "gpt2", "vit"],
    "convolutional": ["1", "demo-cnn", "resnet18"],
    "recurrent": ["1", "gru", "rnn", "gru-bidirectional", "gru-packed", "lstm", "lstm-packed"],
    "detectors": ["1", "ssd", "faster-rcnn"],
    "on two threads": ["2", "bert-narrow"],
    "autocast": ["1", "bert-narrow", "demo-cnn", "--autocast"],
    "recurrent autocast": ["1", "lstm", "--autocast"],
}


def cpu_has_lstm_of_16_bits() -> bool:
    """Where there is no AVX-512, oneDNN has none, and eager raises."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(4, 4)(torch.ones(2, 1, 4))
    except RuntimeError as error:
        if "primitive descriptor" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("group", GROUPS)
def test_ten_steps_are_eagers(group):
    if group == "recurrent autocast" and not cpu_has_lstm_of_16_bits():
        pytest.skip("eager has no LSTM in bfloat16 on this CPU")
    done = subprocess.run(
        [sys.executable, SCRIPT, *GROUPS[group]],
        env=os.environ
        | {"LAZULI_KERNELS": "eager", "LAZULI_FALLBACK": "error", "LAZULI_UNPLANNED": "auto"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    differing = json.loads(done.stdout.splitlines()[-1])
    assert differing == {name: [] for name in differing}
    assert differing
