"""Python's compiled autograd, which makes one graph of a backward, over recorded operations."""

import contextlib
import threading

import pytest
import torch
from differential import Double, assert_same, assert_same_error, normal
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters as dynamo_counters
from torch.nn import functional as F

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@pytest.fixture(autouse=True)
def nothing_compiled_yet():
    torch._dynamo.reset()
    dynamo_counters.clear()


def compiled(backend="eager"):
    return compiled_autograd._enable(lambda graph: torch.compile(graph, backend=backend))


def model(device):
    torch.manual_seed(0)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = torch.nn.Embedding(7, 8), torch.nn.LayerNorm(8)
            self.attend, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 3)
            self.conv = torch.nn.Conv1d(5, 5, 3, padding=1)

        def forward(self, x):
            x = self.conv(self.norm(self.embed(x)))
            q, k, v = self.attend(x).split(8, 2)
            x = F.gelu(x + torch.softmax(q @ k.transpose(1, 2) * 0.3, -1) @ v)
            return self.out(x.mean(1)).squeeze(1)

    return Model().to(device)


@BACKENDS
def test_training(backend):
    def train(device):
        net = model(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for step in range(3):
            x = (torch.arange(10).view(2, 5) * (step + 1) % 7).to(device)
            with compiled(backend):
                loss = F.cross_entropy(net(x), torch.tensor([0, 2]).to(device))
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss)
        return losses, list(net.parameters())

    assert_same(train, rtol=1e-3, atol=1e-5)
    captures = 2  # for each device one graph, which all steps use
    assert dynamo_counters["compiled_autograd"]["captures"] == captures


def test_several_shapes_and_numbers():
    def differentiate(device):
        out = []
        for n in (2, 3, 2):
            for factor in (2.0, 3.0):
                x = normal(n, 4, device=device, grad=True)
                with compiled():
                    (x * factor).exp().t().reshape(-1)[1:].mean().backward()
                out.append(x.grad)
        return out

    assert_same(differentiate)


@BACKENDS
def test_views(backend):
    def differentiate(device):
        x = normal(2, 6, device=device, grad=True)
        a, b = x.split(3, 1)
        c, d = x.unbind(0)
        y = (
            (a * b).view(6)
            + a.t().reshape(6)
            + x.permute(1, 0).unsqueeze(0).squeeze(0)[2:5].flatten()
        )
        z = (c.expand(3, 6) * d)[:, ::2].select(0, 1)
        with compiled(backend):
            (y.sum() + z.sin().sum() + c[1]).backward()
        return x.grad

    assert_same(differentiate)


def test_gradients_of_inputs():
    def differentiate(device):
        x, w = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        y = x * w
        z = y.sin()
        with compiled():
            g = torch.autograd.grad((z * y + w).sum(), [y, w], retain_graph=True)
            (z * x).sum().backward(inputs=[x])
        return g, x.grad, w.grad is None

    assert_same(differentiate)


def test_hooks():
    def double(p):
        p.grad.mul_(2)

    def differentiate(device):
        x, w = normal(3, device=device, grad=True), normal(3, device=device, grad=True)
        y = x * w
        y.register_hook(lambda g: g * 3)
        x.register_hook(lambda g: g + 1)
        w.register_post_accumulate_grad_hook(double)
        y.retain_grad()
        with compiled():
            y.sin().sum().backward()
        return x.grad, w.grad, y.grad

    assert_same(differentiate)


def test_custom_functions_and_other_operators():
    def differentiate(device):
        x = normal(4, 4, device=device, grad=True)
        y = Double.apply(x.sin())
        y = y.clone().mul_(x) + torch.atan2(y, x)
        with compiled():
            y.tanh().sum().backward()
        return x.grad

    assert_same(differentiate)


def test_traces_that_have_ended():
    def differentiate(device):
        x = normal(4, 6, device=device, grad=True)
        y = torch.tanh(x.t()) * 3
        y.detach().sum().item()
        z = F.layer_norm(y, (4,)).exp()
        z.detach().sum().item()
        with compiled():
            z.sum().backward()
        return x.grad

    assert_same(differentiate)


def test_values_changed_through_data():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = (x * 2).exp()
        z = y.sin() * x
        y.data.mul_(3)
        x.data.add_(1)
        with compiled():
            z.sum().backward()
        return x.grad

    assert_same(differentiate)


def test_errors():
    def again(device):
        y = normal(3, device=device, grad=True).sin().sum()
        with compiled():
            y.backward()
            y.backward()

    assert_same_error(again, RuntimeError)

    def changed(device):
        x = normal(3, device=device, grad=True) * 2
        y = (x * x).sum()
        with torch.no_grad():
            x.add_(1)
        with compiled():
            y.backward()

    assert_same_error(changed, RuntimeError)


def test_a_compiled_step():
    """The setting that torch.compile has for it."""

    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
        net.to(device)

        def step(x):
            loss = net(x).pow(2).mean()
            loss.backward()
            return loss

        with torch._dynamo.config.patch(compiled_autograd=True):
            run = torch.compile(step, backend="eager")
            losses = [run(normal(3, 4, device=device)) for _ in range(2)]
        return losses, [p.grad for p in net.parameters()]

    assert_same(train, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("fails", [False, True])
def test_afterwards_the_device_has_the_engine_back(device, counters, fails):
    x = torch.ones(2, device=device, requires_grad=True)

    def look():
        """Whether hooks run on this thread, and how many nodes a backward makes."""
        threads = []
        y = x * 2
        y.register_hook(lambda g: threads.append(threading.get_ident()))
        y.sum().backward()
        torch.lazuli.reset_metrics()
        (x * 2).sin().sum().backward()
        return threads == [threading.get_ident()], counters()["autograd_nodes"]

    before = look()
    with contextlib.suppress(ValueError), compiled():
        (x * 2).sin().sum().backward()
        if fails:
            raise ValueError
    assert look() == before
