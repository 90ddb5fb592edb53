"""Hooks: of tensors, modules, gradients, optimizers, saved tensors."""

import pytest
import torch
from differential import assert_same, normal


def test_tensor_hooks():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        seen = []
        x.register_hook(lambda g: g * 3)
        y.register_hook(lambda g: seen.append(g.clone()))
        removed = y.register_hook(lambda g: g * 100)
        removed.remove()
        y.sin().sum().backward()
        return x.grad, seen

    assert_same(differentiate)


def test_post_accumulate_grad_hook():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        seen = []

        def step(p):
            seen.append(p.grad.clone())
            p.grad = None

        x.register_post_accumulate_grad_hook(step)
        (x * x).sum().backward()
        return seen, x.grad is None

    assert_same(differentiate)


def test_module_hooks():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh()).to(device)
        seen = []
        net[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        net[0].register_forward_hook(lambda m, args, out: out + 1)
        net[1].register_full_backward_hook(lambda m, gi, go: seen.extend([gi[0], go[0]]))
        net[0].register_full_backward_pre_hook(lambda m, go: (go[0] * 0.5,))
        y = net(normal(2, 3, device=device))
        y.pow(2).sum().backward()
        return y, seen, [p.grad for p in net.parameters()]

    assert_same(train)


def test_grad_fn_hooks():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x.exp()
        seen = []
        y.grad_fn.register_hook(lambda gi, go: seen.append(go[0]))
        y.grad_fn.register_prehook(lambda go: (go[0] * 2,))
        y.sum().backward()
        return seen, x.grad, type(y.grad_fn).__name__

    assert_same(differentiate)


def test_optimizer_hooks():
    def train(device):
        torch.manual_seed(0)
        p = torch.nn.Parameter(normal(3, device=device))
        optimizer = torch.optim.SGD([p], lr=0.1)
        calls = []
        optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
        optimizer.register_step_post_hook(lambda *_: calls.append("after"))
        for _ in range(2):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        return p, calls

    assert_same(train)


def test_saved_tensors_hooks():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        packed = []

        def pack(t):
            packed.append(tuple(t.shape))
            return t * 1.0

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = (x.sin() * x.exp()).sum()
        y.backward()
        return packed, x.grad

    assert_same(differentiate)


def test_save_on_cpu():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        with torch.autograd.graph.save_on_cpu():
            y = (x.sin() * x.exp()).sum()
        y.backward()
        return x.grad

    assert_same(differentiate)


def test_gradients_clipped_by_hooks():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2).to(device)
        for p in net.parameters():
            p.register_hook(lambda g: g.clamp(-0.1, 0.1))
        net(normal(4, 3, device=device)).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        return norm, [p.grad for p in net.parameters()]

    assert_same(train)


def test_anomaly_mode():
    from differential import assert_same_error

    def differentiate(device):
        x = torch.zeros(2, device=device).requires_grad_()
        with torch.autograd.detect_anomaly(check_nan=True):
            y = (x / x).sqrt()
            y.sum().backward()

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        message = assert_same_error(differentiate, RuntimeError)
    assert "returned nan values" in message


@pytest.mark.parametrize("function", ["sin", "tanh", "exp", "square", "relu", "sigmoid"])
def test_hooks_in_double_backward(function):
    """Second gradients come to a tensor's hook only if its derivative reads the result."""

    def differentiate(device):
        x = normal(4, device=device, grad=True)
        y = getattr(torch, function)(x * 2)
        seen = []
        y.register_hook(lambda g: seen.append(None if g is None else g.detach().clone()))
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        g.square().sum().backward()
        return seen, x.grad

    assert_same(differentiate)
