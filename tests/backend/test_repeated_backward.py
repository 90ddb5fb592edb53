"""Backward that is recorded again as before: the gradients are eager's, whatever has changed."""

import random

import pytest
import torch
from differential import Double, assert_same, assert_same_error, normal
from torch import nn

ITERATIONS = 6


@pytest.fixture(params=["on", "off", "check"])
def setting(request, device):
    with torch.lazuli.config.patch(repeat_backward=request.param):
        yield request.param


def end_of_trace(device):
    if device == "lazuli":
        torch.lazuli.synchronize()


def test_a_loop_takes_its_derivatives_twice(counters):
    """The first time for itself, the second time to keep what they record."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).to("lazuli")
    x, repeated = torch.randn(3, 4).to("lazuli"), []
    with torch.lazuli.config.patch(repeat_backward="on"):
        for _ in range(ITERATIONS):
            model.zero_grad()
            model(x).square().sum().backward()
            torch.lazuli.synchronize()
            repeated.append(counters()["derivatives_repeated"])
    one = repeated[-1] - repeated[-2]
    assert one >= 5  # two linear layers, tanh, a square and a sum
    assert repeated == [0, 0] + [one * (i + 1) for i in range(ITERATIONS - 2)]


def test_off_repeats_nothing(counters):
    w = torch.randn(3, 3).to("lazuli").requires_grad_()
    with torch.lazuli.config.patch(repeat_backward="off"):
        for _ in range(ITERATIONS):
            (w @ w).sin().sum().backward()
            torch.lazuli.synchronize()
    assert counters()["derivatives_repeated"] == 0


def network(device):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
    )
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape))
    return model.to(device), normal(2, 3, 4, 4, device=device)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("bound", [20_000, 17], ids=["whole traces", "short traces"])
def test_training(setting, memory, bound):
    def train(device):
        model, x = network(device)
        model, x = model.to(memory_format=memory), x.contiguous(memory_format=memory)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
        losses = []
        for _ in range(ITERATIONS):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), torch.tensor([1, 3]).to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, [p.grad for p in model.parameters()]

    with torch.lazuli.config.patch(max_pending_ops=bound):
        assert_same(train, ignore=["stride"], rtol=1e-4, atol=1e-5)


VIEWS = (
    lambda x: x.t(),
    lambda x: x.reshape(2, 8).reshape(4, 4),
    lambda x: x[1:3].repeat(2, 1),
    lambda x: x[::2, 1].expand(4, 2).repeat(1, 2),
    lambda x: torch.cat(x.split([1, 3], 1)[::-1], 1),
    lambda x: torch.stack(x.unbind(0), 1),
    lambda x: x.permute(1, 0).contiguous(),
)
OTHERS = (
    lambda x: x.sin(),
    lambda x: x.softmax(-1),
    lambda x: x.sum(0) + x,
    lambda x: x * 3,
    lambda x: x.pow(2),
    lambda x: nn.functional.layer_norm(x, (4,)),
    Double.apply,
)


@pytest.mark.parametrize("seed", range(24))
def test_what_differs_between_iterations(setting, seed):
    """One graph again and again, of which other things are asked every time."""

    def iterate(device):
        choose, seen = random.Random(seed), []
        leaves = [normal(4, 4, device=device) for _ in range(5)]
        for _ in range(2 * ITERATIONS):
            different = choose.choice(
                ["", "", "", "frozen", "inputs", "data", "hook", "seed", "written", "twice", "add"]
            )
            for i, leaf in enumerate(leaves):
                leaf.requires_grad_(different != "frozen" or i % 2 == 0)
            graph, values = random.Random(seed), list(leaves)
            for _ in range(12):
                a, b = graph.choice(values[-5:]), graph.choice(values)
                kind = graph.randrange(3)
                one = graph.choice(VIEWS if kind == 1 else OTHERS)
                values.append((a * b if kind == 0 else one(a)) * 0.5)
            middle = values[-3]
            if different == "data":
                leaves[0].data = leaves[0].data * 0.5
            if different == "hook" and middle.requires_grad:
                middle.register_hook(lambda g: g * 2)
            if different == "written":
                with torch.no_grad():
                    middle.mul_(1)
            loss = sum(v.sum() for v in values[-3:])
            try:
                if different == "inputs":
                    seen += torch.autograd.grad(loss, [leaves[1], leaves[4]], allow_unused=True)
                elif different == "seed":
                    loss.backward(torch.full_like(loss, 0.5))
                elif different == "twice":
                    loss.backward(retain_graph=True)
                    loss.backward()
                else:
                    loss.backward()
            except RuntimeError as e:
                seen.append(str(e)[:60])
            seen += [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves]
            if different != "add":
                for leaf in leaves:
                    leaf.grad = None
            end_of_trace(device)
        return seen

    assert_same(iterate, ignore=["stride"], rtol=1e-4, atol=1e-4)


def test_other_sizes_and_numbers(setting):
    """Numbers are no part of a trace's code, sizes are."""

    def iterate(device):
        out = []
        for i in range(3 * ITERATIONS):
            x = normal(2 + i % 3, 4, device=device, grad=True)
            ((x * (1 + i)).pow(2).sum() / (i + 2)).backward()
            out.append(x.grad)
            end_of_trace(device)
        return out

    assert_same(iterate)


def test_slices_at_other_places(setting):
    def run(device):
        x = normal(9, device=device).requires_grad_()
        w = normal(2, device=device)
        for offset in (1, 1, 1, 4, 0, 7, 1):
            (x[offset : offset + 2].sin() * w).tanh().sum().backward()
            end_of_trace(device)
        return x.grad

    assert_same(run)


def test_gradients_that_come_from_other_results(setting):
    """The same step, of which now one result is asked for and now the other."""

    def run(device):
        x = normal(4, device=device).requires_grad_()
        for which in (0, 0, 0, 1, 0, 1, 1):
            results = x.sin().exp().split(2)
            results[which].backward(torch.ones(2, device=device))
            end_of_trace(device)
        return x.grad

    assert_same(run)


def add_one(x):
    with torch.no_grad():
        x.add_(1)


@pytest.mark.parametrize("write", [add_one, torch.autograd.graph.increment_version])
@pytest.mark.parametrize("is_leaf", [False, True], ids=["result", "leaf"])
def test_an_operand_that_was_written(setting, write, is_leaf):
    """The second counts as a write, and leaves the numbers as they are."""

    def run(device):
        w = normal(3, 3, device=device).requires_grad_()
        kept = w if is_leaf else w * 1
        for i in range(ITERATIONS):
            y = kept.exp() @ kept
            if i == ITERATIONS - 1:
                write(kept)
            y.sum().backward(retain_graph=True)
            end_of_trace(device)

    assert "modified by an inplace operation" in assert_same_error(run)


@pytest.mark.parametrize("order", [(1, 2, 0), (2, 0, 1)])
def test_the_gradient_of_a_permuted_leaf_lies_as_the_leaf(setting, order):
    def run(device):
        x, strides = normal(2, 3, 4, device=device).requires_grad_(), []
        x.register_hook(lambda g: strides.append(g.stride()))
        for _ in range(ITERATIONS):
            x.permute(order).sin().sum().backward()
            end_of_trace(device)
        return x.grad, torch.tensor([*strides, x.grad.stride()])

    assert_same(run)
