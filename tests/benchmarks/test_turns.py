"""Every step of a turn runs within the time that counts, on every arm alike."""

import time

import pytest
import torch

from benchmarks import turns


def test_a_turn_keeps_every_result_and_reads_it_within_its_time():
    events = []

    def step():
        events.append("step")
        return len(events)

    def read(arm, kept):
        events.append(("read", arm, len(kept)))
        time.sleep(0.02)
        return list(kept)

    taken = turns.take_turns({"eager": step}, rounds=1, steps=3, read=read)
    # One step is not timed, and what it began is over when the clock starts.
    assert events == ["step", ("read", "eager", 1), *["step"] * 3, ("read", "eager", 3)]
    assert taken.results["eager"] == [3, 4, 5]
    assert taken.seconds["eager"][0] >= 0.02 / 3


def test_the_arms_change_their_order():
    order = []
    arms = {arm: lambda arm=arm: order.append(arm) for arm in ("a", "b")}
    turns.take_turns(arms, rounds=2, steps=1, read=lambda arm, kept: None)
    assert order == ["a", "a", "b", "b", "b", "b", "a", "a"]


def test_a_median_counts_turns():
    taken = turns.Turns()
    taken.seconds["eager"] = [1.0, 9.0, 2.0]
    assert taken.medians() == {"eager": 2.0}


@pytest.mark.parametrize("read", [turns.read, turns.wait])
def test_what_lazuli_was_asked_for_is_computed_when_a_turn_ends(device, read):
    x = torch.randn(8, 8).to(device)
    kept = [x @ x + 1 for _ in range(4)]
    assert "matmul" in torch.lazuli.dump()
    read("lazuli", kept)
    assert "matmul" not in torch.lazuli.dump()
