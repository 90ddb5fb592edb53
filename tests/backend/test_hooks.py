"""Hooks: of tensors, modules, gradients, optimizers, saved tensors."""

import logging
import re

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


def test_optimizer_in_backward():
    """Each parameter is updated, and its gradient freed, before backward goes on."""

    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
        ).to(device)
        optimizers = {p: torch.optim.Adam([p], lr=0.01) for p in net.parameters()}

        def step(p):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in net.parameters():
            p.register_post_accumulate_grad_hook(step)
        losses = []
        for _ in range(3):
            loss = net(normal(3, 4, device=device)).pow(2).mean()
            loss.backward()
            losses.append(loss)
        return losses, list(net.parameters()), [p.grad is None for p in net.parameters()]

    assert_same(train, rtol=1e-4, atol=1e-5)


def test_backward_in_a_hook():
    def differentiate(device):
        x, w = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        seen = []

        def hook(g):
            with torch.enable_grad():
                inner = g.detach().requires_grad_()
                (inner.sin() * w).sum().backward()
            seen.append(inner.grad)
            return g * 2

        y = x * w
        y.register_hook(hook)
        x.register_hook(hook)
        (y.exp() * w).sum().backward()
        return seen, x.grad, w.grad

    assert_same(differentiate)


def test_backward_of_the_same_leaf_in_a_hook():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        once = []

        def hook(p):
            if not once:
                once.append(p.grad.clone())
                with torch.enable_grad():
                    (p * p).sum().backward()

        x.register_post_accumulate_grad_hook(hook)
        x.sin().sum().backward()
        return once, x.grad

    assert_same(differentiate)


def test_order_of_hooks():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x * 2
        order = []

        def note(name, factor=1.0):
            def hook(*gradients):
                order.append(name)
                return None if len(gradients) == 2 else gradients[0] * factor

            return hook

        y.register_hook(note("tensor", 2))
        y.retain_grad()
        y.register_hook(note("later", 3))
        y.grad_fn.register_prehook(lambda g: order.append("before the node") or None)
        y.grad_fn.register_hook(note("after the node"))
        x.register_hook(note("leaf", 5))
        x.register_post_accumulate_grad_hook(lambda p: order.append("accumulated"))
        y.sin().sum().backward()
        return order, x.grad, y.grad

    assert_same(differentiate)


def test_hooks_of_several_tensors():
    def differentiate(device):
        x, w = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        y, z, unused = x * 2, w.exp(), w * 3
        seen = []
        register = torch.autograd.graph.register_multi_grad_hook
        register((y, z, unused), lambda gs: seen.append([g is None for g in gs]))
        register((y, z), lambda g: seen.append(g.clone()), mode="any")
        (y * z).sum().backward()
        return seen, x.grad, w.grad

    assert_same(differentiate)


def test_hooks_of_one_of_several_results():
    def differentiate(device):
        x = normal(4, 6, device=device, grad=True)
        a, b, _ = x.split(2, 1)
        seen = []
        b.register_hook(lambda g: seen.append(g.clone()) or g * 2)
        a.grad_fn.register_hook(lambda gi, go: seen.append([g is None for g in go]))
        mean, var = torch.var_mean(x, 1)
        mean.register_hook(lambda g: g * 3)
        (a.sum() + b.exp().sum() + (mean * var).sum()).backward()
        return seen, x.grad

    assert_same(differentiate, rtol=1e-5, atol=1e-5)


def test_callbacks_at_the_end_of_backward():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        seen = []

        def hook(g):
            engine = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: seen.append(x.grad.clone()))

        y = x * 2
        y.register_hook(hook)
        (y.sin() + x).sum().backward()
        return seen, x.grad

    assert_same(differentiate)


def test_saved_tensors_may_be_changed():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            y = x.exp()
            z = y * y
            y.mul_(2)
            (z + y).sum().backward()
        return x.grad

    assert_same(differentiate)


def test_what_nodes_carry():
    def look(device):
        x = normal(3, device=device, grad=True)
        y = (x * 2).sin()
        y.grad_fn.metadata["name"] = "mine"
        y.grad_fn.next_functions[0][0].metadata["name"] = "another"
        y.sum().backward()
        return y.grad_fn.metadata, y.grad_fn.next_functions[0][0].metadata

    assert_same(look)


def test_node_that_runs():
    """A function's context is its node, so that what forward left there is found in backward."""
    current = torch._C._current_autograd_node

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, seen):
            ctx.seen, ctx.name_of_mine = seen, "mine"
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            ctx.seen.append((current() is ctx, current().name_of_mine))
            with torch.enable_grad():
                x = torch.ones(3, device=g.device, requires_grad=True)
                y = x * 2
                y.register_hook(note(ctx.seen))
                y.sum().backward()
            ctx.seen.append(current() is ctx)
            torch.autograd.Variable._execution_engine.queue_callback(note(ctx.seen))
            return g, None

    def note(seen, node=None):
        def hook(*args):
            now = current()
            seen.append((None if now is None else now.name(), node is None or now is node))

        return hook

    def differentiate(device):
        seen = []
        x = normal(3, device=device, grad=True)
        middle = x * 2
        y = Function.apply(middle.sin(), seen).exp()
        middle.grad_fn.metadata["key"] = "value"
        x.register_hook(note(seen))
        x.register_post_accumulate_grad_hook(note(seen))
        middle.register_hook(lambda g: seen.append(current().metadata["key"]))
        y.register_hook(note(seen, y.grad_fn))
        y.grad_fn.register_prehook(note(seen, y.grad_fn))
        y.grad_fn.register_hook(note(seen, y.grad_fn))
        y.sum().backward()
        assert current() is None
        return seen

    assert_same(differentiate)


def test_logging_of_nodes(caplog):
    """What TORCH_LOGS="+autograd" shows."""

    def differentiate(device):
        caplog.clear()
        x = normal(3, device=device, grad=True)
        y = (x * 2).sin().sum()
        with caplog.at_level(logging.DEBUG, "torch.autograd.graph"):
            y.backward()
        return [re.sub(r" object at \w+", "", r.getMessage()) for r in caplog.records], x.grad

    lines, _ = assert_same(differentiate)
    assert lines[1] == "Executing: <SinBackward0> with grad_outputs: [f32[3]]"


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


@pytest.mark.parametrize("hooked", [0, 1, 2])
def test_what_a_hook_of_a_leaf_sees_of_the_others(hooked):
    """Leaves that become ready together have their turns one after the other."""

    def differentiate(device):
        leaves = [normal(3, device=device, grad=True) for _ in range(3)]
        seen = []
        leaves[hooked].register_hook(lambda g: seen.extend(t.grad is None for t in leaves))
        leaves[hooked].register_post_accumulate_grad_hook(
            lambda p: seen.extend(t.grad is None for t in leaves)
        )
        torch.addcmul(leaves[0] * leaves[1], leaves[1], leaves[2]).sum().backward()
        return seen, [t.grad for t in leaves]

    assert_same(differentiate)


def test_what_a_hook_inside_sees_of_leaves():
    def differentiate(device):
        leaves = [normal(3, device=device, grad=True) for _ in range(3)]
        seen = []
        inner = leaves[0] * leaves[1]
        inner.register_hook(lambda g: seen.extend(t.grad is None for t in leaves))
        (inner * leaves[2]).sum().backward()
        return seen, [t.grad for t in leaves]

    assert_same(differentiate)


@pytest.mark.parametrize(
    "wanted", ["y", "z", "x y", "y x", "x z", "y z", "x y z", "part", "x part"]
)
@pytest.mark.parametrize("ask", ["grad", "backward"])
def test_hooks_of_what_is_asked_for(wanted, ask):
    """Of a node that runs, eager gives the gradient that its tensors' hooks have not seen yet."""

    def differentiate(device):
        x = normal(3, 4, device=device, grad=True)
        y = x * 2
        y.register_hook(lambda g: g * 3)
        y.retain_grad()
        z = y.cos()
        z.mul_(0.5)
        z.register_hook(lambda g: g * 5)
        part = z[1:]
        part.register_hook(lambda g: g * 7)
        loss = part.sin().sum() + (z * y).sum() + x.sum()
        inputs = [{"x": x, "y": y, "z": z, "part": part}[name] for name in wanted.split()]
        if ask == "grad":
            return torch.autograd.grad(loss, inputs), y.grad
        loss.backward(inputs=inputs)
        return [t.grad for t in inputs], y.grad

    assert_same(differentiate)
