"""What the tests of other libraries share.

The libraries are in a folder of their own (requirements/libraries.txt), which tools/test puts on
Python's path. A test of one that is not there is skipped.
"""

import os

# Nothing is looked for on the network; and no tracker is asked whether it wants to be told.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["DISABLE_TELEMETRY"] = "1"

import pytest
import torch


@pytest.fixture
def name_device(monkeypatch):
    """`name_device(way, device)`: names a device to libraries in one of the ways there are."""
    torch.set_default_device(None)

    def name(way: str, device: str = "lazuli") -> None:
        if way == "environment":
            monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)
        elif way == "default device":
            torch.set_default_device(device)
        elif way == "take over":
            monkeypatch.setenv("LAZULI_TAKE_OVER", "1")
        else:
            raise ValueError(way)

    yield name
    torch.set_default_device(None)


@pytest.fixture(autouse=True)
def no_state_left():
    """accelerate keeps the device and the processes of a program in classes."""
    yield
    if "accelerate" in __import__("sys").modules:
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
