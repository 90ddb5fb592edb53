"""Shadow runs: each trace once more, op by op with torch's own kernels, and compared."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.layers(self.words(x)).mean(1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm_a, self.norm_b = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 2)
        x = F.relu(x + self.norm_b(self.b(F.relu(self.norm_a(self.a(x))))))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(6, 12, batch_first=True), nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8)
        self.middle, self.up = nn.Conv2d(8, 8, 3, padding=1), nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(11, 5, 1)

    def forward(self, x):
        y = F.silu(self.norm(self.down(x)))
        y = self.up(F.silu(self.middle(y)))
        return self.last(torch.cat([x, F.interpolate(y, scale_factor=1.0)], 1)).mean((2, 3))


MODELS = {
    "encoder": (Encoder, lambda: torch.randint(50, (4, 7))),
    "residual": (Residual, lambda: torch.randn(4, 3, 12, 12)),
    "recurrent": (Recurrent, lambda: torch.randn(4, 5, 6)),
    "unet": (UNet, lambda: torch.randn(4, 3, 8, 8)),
}


def train(name, device, steps=3, dtype=None):
    make, batch = MODELS[name]
    torch.manual_seed(1)
    model = make().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        x, y = batch().to(device), torch.randint(5, (4,)).to(device)
        with torch.autocast("lazuli", dtype, enabled=dtype is not None):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@pytest.mark.parametrize("name", MODELS)
def test_training_agrees_with_eager(name, device):
    with torch.lazuli.shadow() as found:
        train(name, device)
    assert found.reports == []
    assert found.traces >= 3


@pytest.mark.parametrize("name", ["encoder", "residual"])
def test_training_in_bfloat16_agrees_with_eager(name, device):
    with torch.lazuli.shadow() as found:
        train(name, device, steps=2, dtype=torch.bfloat16)
    assert found.reports == []


@torch.no_grad()
def test_the_tail_of_gelu_is_rounding(device):
    """There 1 + erf is all but zero: its rounding is all that is left, in any library."""
    x, w = torch.randn(512, 384), torch.randn(512, 384) / 20
    with torch.lazuli.shadow() as found:
        F.gelu(F.linear(x.to(device), w.to(device), torch.linspace(-8, 0, 512).to(device))).cpu()
    assert found.reports == []
    assert found.traces


# ---- Planted faults: torch's kernel is the wrong one, since ours cannot be from here.

WRONG = {
    "gelu": lambda x, *, approximate="none": torch.tanh(x),
    "_softmax": lambda x, dim, half: torch.sigmoid(x),
    "mm": lambda a, b: (a.unsqueeze(-1) * b).sum(1) * 1.001,
    "gelu_backward": lambda g, x, *, approximate="none": g * 0.5,
    "sqrt": lambda x: x * 1,
    "exp": lambda x: torch.special.expm1(x) + 1.0001,
}


@pytest.fixture
def plant(planned):
    """Makes a kernel for an operator, a wrong one on the CPU unless given, until the test ends."""
    libraries = []

    def make(name, kernel=None, key="CPU"):
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that torch has a kernel for it already
            library.impl(name, kernel or WRONG[name], key, allow_override=True)
        libraries.append(library)

    yield make
    for library in libraries:
        library._destroy()


def here(offset=0):
    """The caller's line, as reports name it."""
    return f"{__file__}:{sys._getframe(1).f_lineno + offset}"


def only_report(body, tmp_path):
    """The one report of what `body` does, which is raised."""
    with (
        pytest.raises(torch.lazuli.ShadowMismatch) as raised,
        torch.lazuli.shadow(folder=tmp_path),
    ):
        body()
    (report,) = raised.value.reports
    return report


def normal(*shape):
    return torch.randn(shape).to("lazuli")


def test_a_wrong_op_is_named(device, plant, tmp_path):
    x, w = normal(8, 16), normal(16, 16)
    lines = []

    def body():
        h = x @ w + 1
        lines.append(here(1))
        h = F.gelu(h)
        (h.softmax(-1) * 2).sum().item()

    plant("gelu")
    report = only_report(body, tmp_path)
    assert (report.op, report.line) == ("gelu", lines[0])
    assert report.together_with == []
    assert report.interpreter_agrees_with == "lazuli"
    assert report.eager == pytest.approx(report.exact)
    assert abs(report.ours - report.exact) > 100 * report.explained > 0
    assert lines[0] in str(report)
    assert str(report.eager)[:5] in str(report)


@pytest.mark.parametrize(
    ("name", "op"), [("mm", "matmul"), ("_softmax", "softmax"), ("exp", "exp")]
)
def test_wrong_ops_of_other_kinds_are_named(name, op, device, plant, tmp_path):
    def body():
        x = normal(6, 8) @ normal(8, 8)
        (x.softmax(-1).exp() - x).sum(0).tolist()

    plant(name)
    assert only_report(body, tmp_path).op == op


def test_a_wrong_derivative_row_is_named(device, plant, tmp_path):
    plant("gelu_backward")
    assert only_report(lambda: train("encoder", device, steps=1), tmp_path).op == "gelu_backward"


def test_an_optimizer_step_is_named(device, plant, tmp_path):
    plant("sqrt")
    assert only_report(lambda: train("unet", device, steps=1), tmp_path).op == "adam_step"


def test_known_traces_with_donated_inputs_are_compared(device, plant, tmp_path):
    x = normal(64)

    def step():
        x.mul_(0.5).exp_()
        torch.lazuli.synchronize()

    for _ in range(3):
        step()
    with torch.lazuli.shadow() as found:
        step()
    assert (found.traces, found.reports) == (1, [])
    plant("exp")
    assert only_report(step, tmp_path).op == "exp"


def test_peeks_are_compared(device, plant, tmp_path):
    x = normal(4)

    def body():
        other = x + 1
        torch.exp(x).tolist()
        return other

    torch.lazuli.synchronize()
    with torch.lazuli.config.patch(peek="always"):
        with torch.lazuli.shadow() as found:
            other = body()
            torch.lazuli.synchronize()
        assert (found.traces, found.reports, len(other)) == (2, [], 4)
        plant("exp")
        assert only_report(body, tmp_path).op == "exp"


def test_external_calls_take_part(device, plant, tmp_path):
    def body():
        x = torch.exp(normal(5, 5))
        q = torch.linalg.inv_ex(x @ x.T + torch.eye(5, device=device)).inverse
        (q @ x).sum().item()

    with torch.lazuli.shadow() as found:
        body()
    assert found.reports == []
    plant("exp")
    assert only_report(body, tmp_path).op == "exp"


def test_random_numbers_are_the_same(device):
    with torch.lazuli.shadow() as found:
        x = torch.randn(100, device=device)
        y = F.dropout(x, 0.5) + torch.rand_like(x).bernoulli()
        order = torch.multinomial(torch.rand(8, device=device), 3)
        (y.sum() + order.sum()).item()
    assert found.traces > 0
    assert found.reports == []


def test_content_that_nobody_wrote_is_not_compared(device):
    with torch.lazuli.shadow() as found:
        x = torch.empty(10, device=device)
        x[:5] = 1
        (x * 2)[:5].sum().item()
        torch.lazuli.synchronize()
    assert found.reports == []


def test_operands_without_memory_of_their_own(device):
    """Some of torch's kernels take what they are given for dense."""
    with torch.lazuli.shadow() as found:
        one, x = torch.ones(4, device=device), normal(4, 4, 2).requires_grad_()
        for y in (F.group_norm(x, 2, one, one), F.batch_norm(x, one, one, one, one, True)):
            y.square().sum().backward()
        x.grad.tolist()
    assert found.reports == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_beside_narrow_types(dtype, device):
    with torch.lazuli.shadow() as found:
        a, b, c = (normal(8, 64).to(dtype) for _ in range(3))
        (torch.addcmul(a, b, c, value=0.3) * 0.1 + torch.add(a, b, alpha=0.7)).tolist()
    assert found.reports == []


def test_a_trace_that_ends_inside_a_backward(device):
    with torch.lazuli.shadow() as found:
        x = normal(5, 5).double().requires_grad_()
        (g,) = torch.autograd.grad(x.prod(0).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.square().sum(), x, create_graph=True)
        (k,) = torch.autograd.grad(h.sum(), x)
        k.tolist()
    assert found.reports == []


def test_a_close_comparison_is_explained(device):
    """Where rounding decides, either side is right."""
    with torch.lazuli.shadow() as found:
        x = torch.full((64,), 0.1, device=device)
        y = (x.cumsum(0) * 10).floor() + (x.exp().log() > 0.1)
        y.tolist()
    assert found.reports == []


def test_warning_goes_on(device, plant, tmp_path):
    x = torch.full((3,), 2.0).to(device)
    plant("exp")
    with (
        pytest.warns(UserWarning, match="a shadow run found"),
        torch.lazuli.shadow(action="warn", folder=tmp_path) as found,
    ):
        y = torch.exp(x).tolist()
    assert y == pytest.approx([7.38906] * 3, abs=1e-5)
    assert [r.op for r in found.reports] == ["exp"]


def test_values_outlive_the_error(device, plant, tmp_path):
    x = torch.full((3,), 2.0).to(device)
    kept = []

    def body():
        kept.append(torch.exp(x))
        kept[0].tolist()

    plant("exp")
    only_report(body, tmp_path)
    assert kept[0].tolist() == pytest.approx([7.38906] * 3, abs=1e-5)


def test_traces_are_counted(counters, device):
    torch.lazuli.explain()
    with torch.lazuli.shadow(2) as found:
        for i in range(4):
            (torch.ones(3, device=device) * i).tolist()
    assert found.traces == 2
    assert counters()["traces_shadowed"] == 2
    assert counters()["shadow_mismatches"] == 0
    events = [e for e in torch.lazuli.explain() if e.kind == "shadow"]
    assert sum(e.count for e in events if e.what == "agrees") == 2
    assert torch.lazuli.config.shadow == 0


# ---- Derivatives


class WrongExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch._C._AutoDispatchBelowAutograd():
            y = torch.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def test_a_wrong_derivative_is_named(device, plant, tmp_path):
    x = normal(4, 4).requires_grad_()
    lines = []

    def body():
        lines.append(here(1))
        y = torch.exp(x.tanh())
        y.square().sum().backward()
        x.grad.tolist()

    with torch.lazuli.shadow() as found:
        body()
    assert found.reports == []
    plant("exp", WrongExp.apply, "AutogradCPU")
    report = only_report(body, tmp_path)
    assert (report.kind, report.op, report.line) == ("derivative", "exp", lines[-1])
    assert report.eager == pytest.approx(2 * report.ours)
    assert "derivative of exp" in str(report)


def test_derivatives_are_compared(counters):
    with torch.lazuli.shadow():
        train("residual", "lazuli", steps=2)
    assert counters()["derivatives_shadowed"] > 20


REPRODUCE = """
import runpy, sys, warnings
import torch
from test_shadow import WrongExp
warnings.simplefilter("ignore")
library = torch.library.Library("aten", "IMPL")
if sys.argv[2] == "value":
    library.impl("exp", lambda x: x + 1, "CPU", allow_override=True)
if sys.argv[2] == "derivative":
    library.impl("exp", WrongExp.apply, "AutogradCPU", allow_override=True)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def outcome(script, planted):
    return subprocess.run(
        [sys.executable, "-c", REPRODUCE, script, planted],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )


def test_the_script_reproduces_it(device, plant, tmp_path):
    def body():
        x = normal(4, 4)
        ((x * 2).exp() + 0.5).tolist()

    plant("exp")
    script = f"{only_report(body, tmp_path).folder}/reproduce.py"
    wrong, right = outcome(script, "value"), outcome(script, "nothing")
    assert wrong.returncode == 1, wrong.stderr
    assert "16 elements differ" in wrong.stdout
    assert right.returncode == 0, right.stderr
    assert "agree" in right.stdout


def test_the_script_reproduces_a_derivative(device, plant, tmp_path):
    def body():
        x = normal(4, 4).requires_grad_()
        x.exp().sum().backward()
        x.grad.tolist()

    plant("exp", WrongExp.apply, "AutogradCPU")
    script = f"{only_report(body, tmp_path).folder}/reproduce.py"
    wrong = outcome(script, "derivative")
    assert wrong.returncode == 1, wrong.stderr
    assert "16 elements differ" in wrong.stdout


ENVIRONMENT = """
import torch
for i in range(3):
    (torch.ones(3, device="lazuli") * i).tolist()
print(torch.lazuli.metrics()["traces_shadowed"])
"""


def test_the_environment_asks_for_it(device, monkeypatch):
    monkeypatch.setenv("LAZULI_SHADOW", "2")
    ran = subprocess.run([sys.executable, "-c", ENVIRONMENT], capture_output=True, text=True)
    assert ran.stdout.strip() == "2", ran.stderr
