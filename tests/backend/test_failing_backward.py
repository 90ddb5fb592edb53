"""A backward that fails: what it leaves behind is what it leaves behind on the CPU."""

import threading
import warnings

import pytest
import torch
from differential import assert_same, assert_same_error, normal


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
