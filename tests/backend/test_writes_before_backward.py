"""Writes between forward and backward: an error just where eager's node keeps what is written."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, without_device

aten = torch.ops.aten


def zeros(like, *shape):
    return torch.zeros(shape, dtype=torch.int64, device=like.device)


FUNCTIONS = {
    "add": (torch.add, [(3,), (3,)]),
    "mul": (torch.mul, [(3,), (3,)]),
    "mul by a number": (lambda x: x * 2, [(3,)]),
    "div": (torch.div, [(3,), (3,)]),
    "abs": (torch.abs, [(3,)]),
    "exp": (torch.exp, [(3,)]),
    "log1p": (torch.log1p, [(3,)]),
    "pow 1": (lambda x: x**1, [(3,)]),
    "pow 2": (lambda x: x**2, [(3,)]),
    "relu": (F.relu, [(3,)]),
    "gelu": (F.gelu, [(3,)]),
    "log_sigmoid": (F.logsigmoid, [(3,)]),
    "mm": (torch.mm, [(3, 3), (3, 3)]),
    "addmm": (torch.addmm, [(3,), (3, 3), (3, 3)]),
    "linear": (F.linear, [(3, 3), (3, 3), (3,)]),
    "conv2d": (F.conv2d, [(2, 3, 4, 4), (3, 3, 3, 3), (3,)]),
    "conv_transpose2d": (F.conv_transpose2d, [(2, 3, 4, 4), (3, 3, 3, 3), (3,)]),
    "mean": (torch.mean, [(3,)]),
    "softmax": (lambda x: x.softmax(0), [(3,)]),
    "layer_norm": (
        lambda *x: torch.native_layer_norm(x[0], (4,), *x[1:], 1e-5),
        [(3, 4), (4,), (4,)],
    ),
    "group_norm": (
        lambda *x: torch.native_group_norm(*x, 3, 4, 2, 2, 1e-5),
        [(3, 4, 2), (4,), (4,)],
    ),
    "batch_norm": (
        lambda *x: torch.native_batch_norm(*x, None, None, True, 0.1, 1e-5),
        [(3, 4), (4,), (4,)],
    ),
    "mse_loss": (F.mse_loss, [(3,), (3,)]),
    "smooth_l1_loss": (F.smooth_l1_loss, [(3,), (3,)]),
    "nll_loss": (lambda x: aten.nll_loss_forward(x, zeros(x, 3), None, 1, -100), [(3, 3)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, return_indices=True), [(1, 2, 4, 4)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), [(1, 2, 4, 4)]),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), [(1, 2, 4, 4)]),
    "gather": (lambda x: x.gather(0, zeros(x, 1)), [(3,)]),
    "cat": (lambda *x: torch.cat(x), [(3,), (3,)]),
}


def outcome(name, device, requiring, written) -> str:
    """The error, or nothing. `written`: the number of a tensor, operands first."""
    function, shapes = FUNCTIONS[name]
    source = torch.Generator().manual_seed(0)
    leaves = [torch.rand(shape, generator=source).to(device) for shape in shapes]
    for i in requiring:
        leaves[i].requires_grad_()
    operands = [x * 1 if x.requires_grad else x for x in leaves]
    results = function(*operands)
    results = results if isinstance(results, tuple) else (results,)
    tensors = [*operands, *results]
    if written < len(tensors):
        try:
            with torch.no_grad():
                tensors[written].add_(1)
            results[0].sum().backward()
        except RuntimeError as error:
            return without_device(error)
    return ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_writes_before_backward(device, name):
    numbers = range(len(FUNCTIONS[name][1]))
    for count in range(1, len(numbers) + 1):
        for requiring in itertools.combinations(numbers, count):
            for written in range(len(numbers) + 3):
                case = name, device, requiring, written
                assert outcome(*case) == outcome(name, "cpu", requiring, written), case


def test_a_view_of_what_is_gone(device):
    def run(device):
        x = torch.rand(1, 2, 4, 4).to(device).requires_grad_()
        y = x * 1
        part = y[0]
        z = F.avg_pool2d(y, 2)
        del y
        with torch.no_grad():
            part.add_(1)
        z.sum().backward()

    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(where)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("written", [0, 1, None], ids=["mean", "variance", "none"])
def test_running_statistics(training, written):
    """A write of them is an error, the layer's own is none: it is often called twice in a step."""

    def run(device):
        x = torch.arange(12.0).reshape(3, 4).to(device).requires_grad_()
        statistics = [torch.zeros(4, device=device), torch.ones(4, device=device)]
        y = sum(F.batch_norm(x + i, *statistics, training=training) for i in range(2))
        if written is not None:
            statistics[written].add_(1)
        try:
            y.square().sum().backward()
        except RuntimeError as error:
            return without_device(error)
        return x.grad, statistics

    assert_same(run)


def test_a_version_that_rises_alone():
    """In a backward that would be repeated, since everything before it was the same."""

    def run(device):
        w = torch.ones(3, device=device, requires_grad=True)
        seen = []
        for turn in range(8):
            y = (w * 2).exp()
            z = y.sin() * y
            if turn == 6:
                torch.autograd.graph.increment_version(y)
            try:
                seen.append(torch.autograd.grad(z.sum(), w)[0])
            except RuntimeError as error:
                seen.append(without_device(error)[:60])
        return seen

    assert_same(run)


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_a_softmax_that_is_written_before_backward(device, function, shape):
    def run(device):
        y = function(torch.ones(shape, device=device, requires_grad=True), 0)
        with torch.no_grad():
            y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            (y * y).sum().backward()
        return y

    assert_same(run)
