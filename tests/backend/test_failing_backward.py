"""A backward that fails: what it leaves behind is what it leaves behind on the CPU."""

import contextlib
import random
import threading
import warnings

import pytest
import torch
from differential import assert_same, assert_same_error, normal


@pytest.fixture(params=["ours", "torch's", "torch's, in anomaly mode"])
def engine(request, device):
    """Who runs backward."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        stack.enter_context(torch.lazuli.config.patch(inline_backward=request.param == "ours"))
        if "anomaly" in request.param:
            stack.enter_context(torch.autograd.detect_anomaly(check_nan=False))
        yield


def outcome(backward, *leaves):
    """The error's text, and what has been accumulated before it."""
    try:
        backward()
    except (RuntimeError, ValueError) as e:
        text = str(e).splitlines()[0].replace("lazuliFloatType", "torch.FloatTensor")
    else:
        text = "no error"
    return text, [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("ask", [False, True])
def test_leaves_before_the_failure_have_their_gradients(ask):
    def differentiate(device):
        a, b, c = (normal(3, device=device, grad=True) for _ in range(3))
        saved = a * 2
        middle = saved.exp() * saved
        loss = (middle * b).sin() * c
        if ask:
            assert loss.grad_fn is not None
        with torch.no_grad():
            saved.add_(1)
        return outcome(loss.sum().backward, a, b, c)

    text, grads = assert_same(differentiate)
    assert "modified by an inplace operation" in text
    assert [g is None for g in grads] == [True, False, False]


def fail(*args):
    raise ValueError("not today")


class Foreign(torch.autograd.Function):
    """Notes that it ran, or fails."""

    @staticmethod
    def forward(ctx, x, note):
        ctx.note = note
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        ctx.note("foreign")
        return g, None


@pytest.mark.parametrize("hook", ["register_hook", "register_post_accumulate_grad_hook"])
def test_leaves_after_one_that_fails_have_none(engine, hook):
    def differentiate(device):
        leaves = [normal(3, device=device, grad=True) for _ in range(100)]
        getattr(leaves[60], hook)(fail)
        y = leaves[0]
        for leaf in leaves[1:]:
            y = (y * leaf).sin()
        text, grads = outcome(y.sum().backward, *leaves)
        return text, [g is None for g in grads], grads[61:]

    assert_same(differentiate)


def test_what_did_not_run_runs_later(engine):
    def differentiate(device):
        a, b, c = (normal(3, device=device, grad=True) for _ in range(3))
        hook = c.register_hook(fail)
        middle = (a * b).sin()
        loss = (middle * c).sum()
        first = outcome(loss.backward, a, b, c)
        hook.remove()
        return first, outcome((middle * 2).sum().backward, a, b, c), outcome(loss.backward, c)

    assert_same(differentiate)


@pytest.mark.parametrize("place", ["foreign", "step", "nowhere"])
def test_branches_take_turns(engine, place):
    """The latest first, whichever branch it is in: torch's order for one device, when all is ready.

    With several devices in one graph torch has a thread for each, and no order.
    """

    def differentiate(device):
        leaves = [normal(3, device=device, grad=True) for _ in range(4)]
        seen = []
        for i, leaf in enumerate(leaves):
            leaf.register_hook(lambda g, i=i: seen.append(i))
        a, b, c, d = leaves
        saved = a * 2
        x = saved.exp() * saved
        y = Foreign.apply(b * 3, fail if place == "foreign" else seen.append)
        z = (c * 4).sin()
        w = Foreign.apply(d * 3, seen.append)
        loss = ((x + z) * y * w).sum()
        if place == "step":
            with torch.no_grad():
                saved.add_(1)
        return outcome(loss.backward, *leaves), seen

    assert_same(differentiate)


@pytest.mark.parametrize("seed", range(12))
def test_graphs_at_random(engine, seed):
    """Leaves that become ready at the same time have no order among them: at most two do here."""

    def differentiate(device):
        choose, seen = random.Random(seed), []

        def hook(name):
            number = choose.randrange(40)
            return lambda *args: fail() if number == 0 else seen.append(name)

        values = leaves = [normal(3, device=device, grad=True) for _ in range(8)]
        for i in range(120):
            a, b = choose.choice(values[-12:]), choose.choice(choose.choice([leaves, values[-12:]]))
            what = choose.randrange(10)
            made = Foreign.apply(a, hook(i)) if what == 0 else a.sin() if what < 3 else a * b
            if what == 9:
                made.register_hook(hook(i))
            values = [*values, made]
        for i, leaf in enumerate(leaves):
            choose.choice([leaf.register_hook, leaf.register_post_accumulate_grad_hook])(hook(i))
        losses = [v.sum() for v in values[-2:]]
        first = outcome(lambda: torch.autograd.backward(losses), *leaves)[0]
        second = outcome(values[-20].sum().backward, *leaves)[0]
        return first, second, [leaf.grad is None for leaf in leaves], seen

    assert_same(differentiate)


def test_many_steps_before_the_failure():
    def differentiate(device):
        leaves = [normal(3, device=device, grad=True) for _ in range(150)]
        saved = leaves[0] * 2
        y = saved * saved
        for leaf in leaves[1:]:
            y = (y * leaf).sin()
        with torch.no_grad():
            saved.add_(1)
        text, grads = outcome(y.sum().backward, *leaves)
        return text, [g is None for g in grads], grads[1:]

    assert_same(differentiate)


def test_a_foreign_function_fails():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no gradient today")

    def differentiate(device):
        a, b = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        loss = (Fails.apply(a * 2) * b).sum()
        return outcome(loss.backward, a, b)

    text, grads = assert_same(differentiate)
    assert text == "no gradient today"
    assert grads[1] is not None


@pytest.mark.parametrize(
    "place", ["leaf", "intermediate", "post accumulate", "node", "node before"]
)
def test_hooks_that_fail(place):
    def differentiate(device):
        a, b = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        y = a * 2

        def fail(*args):
            raise ValueError("no hook today")

        if place == "leaf":
            a.register_hook(fail)
        elif place == "intermediate":
            y.register_hook(fail)
        elif place == "post accumulate":
            a.register_post_accumulate_grad_hook(fail)
        elif place == "node":
            y.grad_fn.register_hook(fail)
        else:
            y.grad_fn.register_prehook(fail)
        loss = (y.sin() * b).sum()
        first = outcome(loss.backward, a, b)
        a.grad = b.grad = None
        # The device works on.
        (a.detach().requires_grad_() * b).sum().backward()
        return first, b.grad

    assert_same(differentiate)


def test_backward_again_after_a_failure():
    def differentiate(device):
        a, b = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        y = a * 2
        failing = [True]

        def hook(g):
            if failing[0]:
                raise ValueError("not yet")

        y.register_hook(hook)
        loss = (y.sin() * b).sum()
        first = outcome(lambda: loss.backward(retain_graph=True), a, b)
        failing[0] = False
        loss.backward()
        return first, a.grad, b.grad

    assert_same(differentiate)


def test_writing_to_one_of_several_views():
    for write in (
        lambda v: v.copy_(torch.ones(2, device=v.device)),
        lambda v: v.add_(1),
        lambda v: v.zero_(),
    ):
        for views in (
            lambda x: x.split(2),
            lambda x: x.unbind(0),
            lambda x: x.chunk(2),
            lambda x: x.split([2, 2]),
        ):

            def fail(device, write=write, views=views):
                x = normal(4, device=device, grad=True)
                part = views(x * 1)[0]
                write(part if part.dim() else part.view(1).expand(2))

            assert_same_error(fail, RuntimeError)


def test_anomaly_mode_in_threads(device):
    """A node notes the Python stack while other threads, which run Python, ask for nodes."""
    errors = []

    def record():
        try:
            for _ in range(200):
                x = shared
                for _ in range(5):
                    x = x * 2
                assert x.grad_fn.name() == "MulBackward0"
                assert shared.grad_fn is not None
        except BaseException as e:
            errors.append(e)

    shared = torch.ones(3, device=device, requires_grad=True) * 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=False):
            threads = [threading.Thread(target=record, daemon=True) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join(60)
    assert not any(t.is_alive() for t in threads)
    assert not errors
