"""A small value that is read while the trace is pending can be computed apart from it."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _always():
    torch.lazuli.synchronize()
    with torch.lazuli.config.patch(peek="always"):
        torch.lazuli.reset_metrics()
        yield


def syncs_and_peeks():
    metrics = torch.lazuli.metrics()
    return sum(metrics["syncs"].values()), metrics["peeks"]


def test_a_read_leaves_the_trace_pending():
    weights = torch.arange(12.0).view(3, 4).to("lazuli")
    hidden = weights @ weights.T
    mask = torch.ones(3, dtype=torch.bool, device="lazuli")
    assert bool(mask.all())
    assert (mask.sum() * 2).item() == 6
    assert syncs_and_peeks() == (0, 2)
    assert hidden.cpu().equal(torch.arange(12.0).view(3, 4) @ torch.arange(12.0).view(3, 4).T)
    assert syncs_and_peeks() == (1, 2)


def test_a_value_is_the_same_with_its_trace():
    a = torch.arange(4.0).to("lazuli")
    other = a + 1
    b = a * 2
    b[1] = 7
    view = b[1:3]
    assert view.cpu().tolist() == [7, 4]
    b += 1
    assert view.cpu().tolist() == [8, 5]
    c = b.sum()
    assert syncs_and_peeks() == (0, 2)
    assert c.item() == 1 + 8 + 5 + 7
    assert b.tolist() == [1, 8, 5, 7]
    assert other.tolist() == [1, 2, 3, 4]


def test_random_numbers_are_drawn_once():
    x = torch.rand(8, device="lazuli")
    y = x * 1
    seen = y.cpu()
    assert syncs_and_peeks() == (0, 1)
    torch.lazuli.synchronize()
    assert x.cpu().equal(seen)
    assert y.cpu().equal(seen)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(4, 4, device="lazuli") @ torch.ones(4, 4, device="lazuli"),
        lambda: torch.ones(1 << 20, device="lazuli") * 2,
        lambda: torch.cdist(torch.ones(2, 2, device="lazuli"), torch.ones(2, 2, device="lazuli")),
    ],
    ids=["product", "large", "external"],
)
def test_what_costs_something_is_computed_once(make):
    other = torch.ones(3, device="lazuli") + 1
    value = make()
    value.cpu()
    assert syncs_and_peeks() == (1, 0)
    assert other.tolist() == [2, 2, 2]


def test_what_is_all_there_is_is_computed_once():
    x = torch.ones(3).to("lazuli")
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    total = (x + 1).sum().item()
    assert total == 6
    assert syncs_and_peeks() == (1, 0)


def test_a_loop_that_reads_what_it_goes_on_from_compiles_little():
    x = torch.ones(4).to("lazuli")
    expected = torch.ones(4)
    for _ in range(40):
        x = x * 0.5 + 1
        expected = expected * 0.5 + 1
        assert x.sum().item() == expected.sum().item()
    syncs, peeks = syncs_and_peeks()
    assert syncs >= 8
    assert peeks >= 30
    assert torch.lazuli.metrics()["traces_compiled"] <= 6


def test_a_loop_that_reads_a_mask_ends_a_trace_in_each_turn():
    """What a turn leaves pending is computed while the next one is recorded, not at its end."""
    weights = torch.eye(4).to("lazuli")
    mask = torch.ones(3, dtype=torch.bool).to("lazuli")
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    results = []
    for turn in range(6):
        assert bool((mask * 1).all())
        x = torch.full((4, 4), float(turn), device="lazuli")
        for _ in range(80):
            x = (x @ weights) * 1.0
        results.append(x)
    metrics = torch.lazuli.metrics()
    assert metrics["syncs"] == {"much pending at a peek": 5}
    assert metrics["peeks"] == 6
    assert [x[0, 0].item() for x in results] == list(range(6))


def test_gradients_after_a_peek():
    w = torch.tensor([1.0, 2.0, 3.0]).to("lazuli").requires_grad_()
    loss = (w * w).sum()
    (w + 1).sum().detach()
    other = w * 3
    assert loss.item() == 14
    assert syncs_and_peeks() == (0, 1)
    (loss + other.sum()).backward()
    assert w.grad.tolist() == [5, 7, 9]


def test_an_error_in_a_peek_names_its_line():
    other = torch.ones(3, device="lazuli") + 1
    x = torch.arange(3.0).to("lazuli")
    wrong = x[torch.tensor([5]).to("lazuli")]
    for _ in range(2):
        with pytest.raises((IndexError, RuntimeError), match="out of") as error:
            wrong.item()
        assert "test_peeking.py" in str(error.value)
    assert other.tolist() == [2, 2, 2]  # of the same trace
    assert (x + 1).tolist() == [1, 2, 3]


def test_never():
    with torch.lazuli.config.patch(peek="never"):
        other = torch.ones(3, device="lazuli") + 1
        assert (torch.ones(2, device="lazuli") * 2).tolist() == [2, 2]
        assert syncs_and_peeks() == (1, 0)
        assert other.tolist() == [2, 2, 2]
