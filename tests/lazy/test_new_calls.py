"""External calls run at once when they are new; the third time they are recorded."""

import pytest
import torch

DEVICE = "lazuli"
NEW = "external call that is new"


@pytest.fixture(autouse=True)
def unplanned():
    with torch.lazuli.config.patch(unplanned="auto"):
        yield


def syncs_of(step, *arguments):
    """The step's result, and how often a new call ended the trace."""
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    result = step(*arguments)
    return result, torch.lazuli.metrics()["syncs"].get(NEW, 0)


def test_a_call_is_recorded_when_it_comes_a_third_time():
    x = torch.randn(3, 17)

    def step(x):
        return torch.special.bessel_j0(x * 2) + 1

    for new in (1, 1, 0, 0):
        result, syncs = syncs_of(step, x.to(DEVICE))
        assert syncs == new
        torch.testing.assert_close(result.cpu(), step(x))
    assert syncs_of(step, x[:2].to(DEVICE))[1] == 1


def test_nothing_is_called_but_once():
    """What a new call returns is not tried out, neither by a meta kernel nor on zeros."""
    seen = []

    def kernel(x, times):
        seen.append("kernel")
        return x * times

    def meta(x, times):
        seen.append("meta")
        return torch.empty_like(x)

    with torch.library._scoped_library("lazuli_new_calls", "DEF") as library:
        library.define("counted(Tensor x, int times) -> Tensor")
        library.impl("counted", kernel, "CPU")
        library.impl("counted", meta, "Meta")
        x = torch.arange(5.0, device=DEVICE)
        for times in range(2, 5):
            y = torch.ops.lazuli_new_calls.counted(x, times)
            assert y.tolist() == [times * i for i in range(5)]
        assert seen == ["kernel"] * 3
        for _ in range(3):
            torch.ops.lazuli_new_calls.counted(x, 2).tolist()
        assert seen == [*["kernel"] * 4, "meta", *["kernel"] * 2]


def test_what_is_written_by_a_new_call():
    x = torch.zeros(4, 6, device=DEVICE)
    row = x[1]
    torch._linalg_det(torch.eye(3, device=DEVICE) * 2)  # several results
    row.lgamma_()
    assert x.isinf().sum().item() == 6
    torch.special.bessel_j1(torch.ones(6, device=DEVICE), out=row)
    assert torch.equal(x[1].cpu(), torch.special.bessel_j1(torch.ones(6)))
    assert x[[0, 2, 3]].cpu().count_nonzero() == 0


def test_views_are_recorded_at_once():
    x = torch.randn(4, 6, dtype=torch.complex64, device=DEVICE) * 2
    _, syncs = syncs_of(lambda: torch.view_as_real(x).unfold(1, 3, 2))
    assert syncs == 0


def test_an_error_of_a_new_call_is_eagers_at_its_line():
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError) as eager:
        torch.linalg.cholesky(x)
    with pytest.raises(RuntimeError) as ours:
        torch.linalg.cholesky(x.to(DEVICE))
    assert str(ours.value) == str(eager.value)


def test_a_derivative_through_new_calls():
    def step(device, n):
        x = (torch.eye(n) * 3 + 0.1).to(device).requires_grad_()
        torch.linalg.cholesky(x * 2).sum().backward()
        return x.grad.cpu()

    for n in (3, 5, 3, 3, 3):
        torch.testing.assert_close(step(DEVICE, n), step("cpu", n))
