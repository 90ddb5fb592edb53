"""metrics, explain and config: what a person asks the device."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch_lazuli.explain import Event, Explanation


def test_metrics_count_ops(counters, device):
    x = torch.ones(3).to(device)
    assert (x + x).sum().item() == 6
    metrics = counters()
    assert metrics["ops_recorded"] >= 2
    assert sum(metrics["syncs"].values()) >= 1
    for name in ("traces_compiled", "traces_reused", "kernels_compiled", "kernels_reused"):
        assert isinstance(metrics[name], int)
    assert isinstance(metrics["external_calls"], dict)
    assert metrics["bytes_peak"] >= metrics["bytes_live"] >= 0


def test_metrics_can_be_reset(counters, device):
    (torch.ones(3).to(device) + 1).cpu()
    torch.lazuli.reset_metrics()
    assert counters()["ops_recorded"] == 0


def test_metrics_are_written_at_exit(tmp_path, device):
    file = tmp_path / "metrics.json"
    subprocess.run(
        [sys.executable, "-c", "import torch; (torch.ones(3).to('lazuli') + 1).cpu()"],
        env=os.environ | {"LAZULI_METRICS": str(file)},
        check=True,
    )
    assert json.loads(file.read_text())["ops_recorded"] >= 1


def test_explain_names_the_line_of_a_sync(device):
    torch.lazuli.explain()
    (torch.ones(3).to(device) + 1).sum().item()
    explanation = torch.lazuli.explain()
    assert "test_inspection.py" in "".join(event.where for event in explanation)
    assert any(event.kind == "sync" for event in explanation)
    # Kept history is what is alive now, not what happened: another test's may be among it.
    assert {event.kind for event in torch.lazuli.explain()} <= {"kept history"}


def test_an_explanation_is_a_table():
    events = [
        Event("sync", "item", 3, 1234.5, "train.py:7"),
        Event("compile", "trace", 1, 2_500_000, ""),
        Event("sync", "print", 1, 12, "train.py:9"),
    ]
    assert str(Explanation(events)).splitlines() == [
        "kind     what   count     time  where",
        "compile  trace      1   2.50 s",
        "sync     item       3  1.23 ms  train.py:7",
        "sync     print      1    12 us  train.py:9",
    ]
    assert str(Explanation([])) == "nothing happened since the last call"


def test_config_can_be_read_set_and_patched(device):
    config = torch.lazuli.config
    name = next(name for name in dir(config) if isinstance(getattr(config, name), bool))
    before = getattr(config, name)
    with config.patch(**{name: not before}):
        assert getattr(config, name) is (not before)
    assert getattr(config, name) is before
    setattr(config, name, before)
    assert f"{name} = {before!r}" in repr(config)


def test_a_setting_that_does_not_exist(device):
    with pytest.raises(AttributeError, match="no setting 'no_such_thing'; there are: "):
        torch.lazuli.config.no_such_thing = 1
    with pytest.raises(AttributeError, match="no setting 'no_such_thing'"):
        torch.lazuli.config.patch(no_such_thing=1).__enter__()


def test_a_value_that_does_not_fit(device):
    with pytest.raises(ValueError, match="setting 'fusion' takes true or false, not 7"):
        torch.lazuli.config.fusion = 7
