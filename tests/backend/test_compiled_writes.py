"""Writes between a compiled forward and its backward, to what it has returned or was given.

A captured graph may save what it returns, or a view of that, for its backward. Where it was written
in between, backward is an error, as it is with torch's own compilers; else it would be wrong.
"""

import pytest
import torch
from differential import without_device


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def returned_and_saved(x, w):
    y = (x @ w).tanh()
    return y.square().sum(), y


def with_a_view_saved(x, w):
    y = (x @ w).exp()
    return (y @ y.t()).sin().sum(), y


def with_a_view_returned(x, w):
    y = (x @ w).exp()
    return y.square().sum(), y.t(), y


def with_a_view_of_an_input(x, w):
    return (w.t() @ w).sin().sum() + (x @ w).sum(), w.t()


FUNCTIONS = [returned_and_saved, with_a_view_saved, with_a_view_returned, with_a_view_of_an_input]
WRITES = {
    "nothing": lambda results, x, w: None,
    "what was returned": lambda results, x, w: results[1].detach().add_(5),
    "a part of it": lambda results, x, w: results[1].detach()[0].mul_(2),
    "what was returned last": lambda results, x, w: results[-1].detach().add_(5),
    "an input": lambda results, x, w: x.add_(5),
    "a parameter": lambda results, x, w: w.detach().add_(5),
}


def gradients(function, write, device, backend):
    """Of three calls, each the gradient or the error: the first is recorded op by op."""
    run, found = torch.compile(function, backend=backend), []
    torch.manual_seed(0)
    for _ in range(3):
        x, w = (torch.randn(4, n).div(3).to(device) for n in (4, 3))
        w.requires_grad_()
        results = run(x, w)
        write(results, x, w)
        try:
            results[0].backward()
            found.append(w.grad.cpu())
        except RuntimeError as error:
            found.append(without_device(error).split(":")[0])
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("written", WRITES)
def test_backward_after_a_write(function, written, device):
    expected = gradients(function, WRITES[written], "cpu", "aot_eager")
    actual = gradients(function, WRITES[written], device, "lazuli")
    assert all(type(e) is not str for e in expected) or written != "nothing"
    for a, e in zip(actual, expected, strict=True):
        if isinstance(e, str) or isinstance(a, str):
            assert type(a) is type(e)
            assert a == e
        else:
            torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-5)


def test_what_is_returned_twice_is_one_tensor(device):
    run = torch.compile(lambda x: (lambda y: (y, y, y[1:]))(x.exp()), backend="lazuli")
    for _ in range(3):
        first, second, part = run(torch.ones(3, device=device))
        second.add_(1)
        assert first is second
        assert part._version == first._version
        assert torch.equal(part.cpu(), first.cpu()[1:])
