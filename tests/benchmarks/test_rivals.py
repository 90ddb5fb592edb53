"""Engines in processes of their own take turns like other arms, and say why they fail."""

import sys
import types
from pathlib import Path

import pytest
import torch

from benchmarks import turns
from benchmarks.models import steady
from benchmarks.rivals import environment
from benchmarks.rivals.arm import Rival


def test_an_engine_takes_its_turns_by_itself():
    asked = []

    def take_turn(steps):
        asked.append(steps)
        return 0.5, [torch.ones(2)] * steps

    arms = {"openvino": types.SimpleNamespace(take_turn=take_turn)}
    taken = turns.take_turns(arms, rounds=2, steps=3)
    assert asked == [3, 3]
    assert taken.seconds == {"openvino": [0.5, 0.5]}
    assert len(taken.results["openvino"]) == 3


def test_no_engine_trains():
    with pytest.raises(RuntimeError, match="does not train"):
        steady.make_rival("bert", "train", "openvino", 1)


def test_an_engine_that_fails_says_why(monkeypatch):
    monkeypatch.setattr(environment, "python", lambda: sys.executable)
    with pytest.raises(RuntimeError, match="KeyError: 'no engine'"):
        Rival("no engine", "demo-cnn", 1)


def test_the_usual_environment_has_no_engine():
    requirements = Path(environment.REQUIREMENTS).parent
    names = ("alone", "demo", "dev", "run")
    usual = "".join((requirements / f"{name}.txt").read_text() for name in names)
    for line in environment.REQUIREMENTS.read_text().splitlines():
        assert line.startswith("#") or line.split("==")[0] not in usual
