"""The device under torch's other machinery: custom functions, compile, profiler, subclasses."""

import pytest
import torch
from differential import assert_same, normal


def test_custom_autograd_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.mark_non_differentiable(sign := x.sign())
            return x**3, sign

        @staticmethod
        def backward(ctx, g, _):
            return 3 * ctx.saved_tensors[0] ** 2 * g

    def differentiate(device):
        x = normal(4, device=device, grad=True)
        y, sign = Cube.apply(x)
        (y * 2).sum().backward()
        return y, sign, x.grad

    assert_same(differentiate)


def test_gradcheck():
    x = torch.randn(3, dtype=torch.float64).to("lazuli").requires_grad_()
    assert torch.autograd.gradcheck(lambda x: (x * x).sin(), (x,))


def test_in_place_custom_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def differentiate(device):
        x = normal(4, device=device, grad=True)
        y = x.clone()
        Double.apply(y)
        y.sin().sum().backward()
        return y, x.grad

    assert_same(differentiate)


def test_fake_tensors():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        a = torch.empty(3, 4, device="lazuli")
        b = (a @ a.t()).relu()
        assert b.device.type == "lazuli"
        assert b.shape == (3, 3)


def test_a_dispatch_mode_sees_what_is_kept_for_backward():
    """Torch's own nodes keep results by `detach`, which a mode may want to follow."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    def work(device):
        seen.clear()
        x = normal(3, 4, device=device, grad=True)
        with Log():
            x.exp().softmax(-1).relu().sum().backward()
        return list(seen), x.grad

    seen = []
    assert_same(work)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "sqrt", "relu"])
def test_a_traced_derivative_reads_its_own_inputs(name):
    from torch.fx.experimental.proxy_tensor import make_fx

    def derivative(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(getattr(torch, name)(x).sum(), x)[0]

    graph = make_fx(derivative)(torch.ones(3, device="lazuli"))
    assert not list(graph.buffers())
    x = torch.tensor([0.25, 4.0, 9.0])
    torch.testing.assert_close(graph(x.to("lazuli")).cpu(), derivative(x))


def test_compile_with_the_eager_backend():
    f = torch.compile(lambda x: x.sin() + 1, backend="eager")
    torch.testing.assert_close(f(torch.ones(3, device="lazuli")).cpu(), torch.ones(3).sin() + 1)


def test_profiler():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as p:
        (torch.ones(4, device="lazuli") + 1).cpu()
    assert any("add" in event.key for event in p.key_averages())


@pytest.mark.parametrize("ask", [False, True])
def test_profiler_of_a_training_step(ask):
    """Operators, the steps of backward by the names of their nodes, and the trace's fate."""
    from torch.profiler import ProfilerActivity, profile

    net = torch.nn.Sequential(torch.nn.Linear(3, 5 + ask), torch.nn.GELU()).to("lazuli")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as p:
        loss = net(torch.ones(7, 3, device="lazuli")).sin().sum()
        if ask:
            assert loss.grad_fn is not None
        loss.backward()
        optimizer.step()
        loss.item()
    seen = {event.key for event in p.key_averages()}
    assert {"aten::addmm", "aten::gelu", "aten::sin"} <= seen
    config = torch.lazuli.config
    assert {"AddmmBackward0", "GeluBackward0", "SinBackward0", "SumBackward0"} <= seen
    assert {"lazuli::sync: optimizer step", "lazuli::compile", "lazuli::run"} <= seen
    inline = config.light_autograd and config.inline_backward
    assert ("LazuliBackward" in seen) is inline
    assert ("LazuliRegionBackward" in seen) is (inline and not ask)
    forward, backward = (
        next(e for e in p.events() if e.name == name) for name in ("aten::sin", "SinBackward0")
    )
    assert forward.sequence_nr == backward.sequence_nr


def test_profiler_of_kernels(planned):
    """Each kernel, library call and call of torch's within the run, with the Python line."""
    from torch.profiler import ProfilerActivity, profile

    x, w = torch.randn(8, 8).to("lazuli"), torch.randn(8, 8).to("lazuli")
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as p:
        y = (x @ w).exp() * 2 + 1
        y = torch.special.airy_ai(y)
        y.cpu()
    assert "aten::special_airy_ai" in {e.name for e in p.events()}
    run = next(e for e in p.events() if e.name == "lazuli::run")
    steps = {
        e.name: e.time_range
        for e in p.events()
        if e.name.startswith("lazuli: ") and "test_composability.py:" in e.name
    }
    for part in ("matmul: ", "exp_mul_add", "external"):
        (time,) = (time for name, time in steps.items() if part in name)
        assert run.time_range.start <= time.start
        assert time.end <= run.time_range.end


def test_profiler_of_autograd():
    with torch.autograd.profiler.profile(use_device="lazuli"):
        assert (torch.ones(4, device="lazuli") + 1).sum().item() == 8


def test_tensor_subclass():
    class Tagged(torch.Tensor):
        pass

    x = torch.ones(3, device="lazuli").as_subclass(Tagged)
    y = (x * 2).sum()
    assert isinstance(y, Tagged)
    assert y.item() == 6


def test_torch_function_and_dispatch_modes():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log() as log:
        x = torch.ones(3, device="lazuli") * 2
    assert "aten.mul.Tensor" in log.seen
    assert x.sum().item() == 6


def test_a_custom_op_written_in_python():
    @torch.library.custom_op("lazuli_tests::triple", mutates_args=())
    def triple(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    triple.register_fake(lambda x: torch.empty_like(x))
    assert triple(torch.ones(2, device="lazuli")).tolist() == [3, 3]


@pytest.mark.parametrize("name", ["svd", "qr", "cholesky", "inv", "solve", "eigh", "det"])
def test_linear_algebra(name):
    def compute(device):
        x = normal(4, 4, device=device, dtype=torch.float64, grad=True)
        spd = x @ x.t() + 4 * torch.eye(4, device=device, dtype=torch.float64)
        f = getattr(torch.linalg, name)
        result = f(spd, x) if name == "solve" else f(spd)
        parts = [result] if isinstance(result, torch.Tensor) else list(result)
        sum(part.abs().sum() for part in parts).backward()
        return [part.abs() for part in parts], x.grad

    assert_same(compute, ignore=("stride",), rtol=1e-6, atol=1e-8)


def test_fft():
    def compute(device):
        x = normal(8, device=device)
        return (
            torch.fft.rfft(x).abs(),
            torch.fft.ifft(torch.fft.fft(x)).real,
            torch.stft(x, 4, return_complex=True, window=torch.ones(4, device=device)).abs(),
        )

    assert_same(compute, ignore=("stride",), rtol=1e-4, atol=1e-5)


def test_deterministic_algorithms():
    torch.use_deterministic_algorithms(True)
    try:

        def compute(device):
            x = normal(4, 4, device=device, grad=True)
            y = x[torch.tensor([0, 0, 1], device=device)].cumsum(0)
            y.sum().backward()
            return y, x.grad, torch.empty(2, device=device).isnan().all()

        assert_same(compute)
    finally:
        torch.use_deterministic_algorithms(False)
