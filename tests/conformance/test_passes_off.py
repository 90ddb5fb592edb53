"""A worker's lines name the case, and the setting where one worker runs it under several."""

import pytest
import torch
from settings import ONE_BY_ONE, PLAIN, group, in_process, passes, setting_of, started, tagged


def test_a_case_runs_under_one_setting_after_the_other():
    settings = ["simplify off", "dead_code off"]
    lines = tagged(["a/b", "c"], settings)
    assert [setting_of(line, settings) for line in lines] == [
        ("simplify off", "a/b"),
        ("dead_code off", "a/b"),
        ("simplify off", "c"),
        ("dead_code off", "c"),
    ]


def test_a_single_setting_is_the_process_s():
    assert tagged(["a/b", "c"], ["avx2"]) == ["a/b", "c"]
    assert setting_of("a/b", ["avx2"]) == ("avx2", "a/b")
    assert "LAZULI_CPU=avx2" in started(["avx2"], ["worker"])
    assert not any("LAZULI" in word for word in started(["avx2", PLAIN], ["worker"]))


def test_every_pass_that_can_be_left_out_is_left_out_once():
    assert group(ONE_BY_ONE) == [f"{name} off" for name in passes()]
    assert group("avx2") == ["avx2"]


@pytest.mark.usefixtures("planned_at_once")
@pytest.mark.parametrize("setting", group(ONE_BY_ONE))
def test_a_pass_is_left_out_in_a_running_process(setting):
    before = torch.lazuli.config.disable_passes
    with in_process(setting):
        assert torch.lazuli.config.disable_passes == setting.removesuffix(" off")
        torch.lazuli.reset_metrics()
        torch.testing.assert_close(
            (torch.ones(3, device="lazuli") * 2).cpu(), torch.full((3,), 2.0)
        )
        assert torch.lazuli.metrics()["traces_compiled"] == 1
    assert torch.lazuli.config.disable_passes == before
