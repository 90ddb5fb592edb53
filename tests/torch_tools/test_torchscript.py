"""torch.jit: traced, scripted and frozen modules on the device, saved and loaded."""

import io

import pytest
import torch
from differential import assert_same, assert_same_error
from tool_models import MODELS, make
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit", "ignore:Converting")
RUNS = 3  # torch's executor profiles the first ones, and then uses what it has learned
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


def traced(module, x):
    # Torch's check fails on the CPU too where a layer of a transformer has a fast path.
    return torch.jit.trace(module, x, check_trace=False)


def scripted(module, x):
    return torch.jit.script(module)


MADE = pytest.mark.parametrize("make_program", [traced, scripted])


def copied(program, place=None):
    """What comes back from a file."""
    file = io.BytesIO()
    torch.jit.save(program, file)
    file.seek(0)
    return torch.jit.load(file, map_location=place)


WITH_FAST_PATHS = ["attention", "encoder"]


@MADE
@pytest.mark.parametrize(
    ("name", "train"), [(n, True) for n in MODELS] + [(n, False) for n in WITH_FAST_PATHS]
)
def test_programs(make_program, name, train):
    def use(device):
        module, x = make(name, device, train)
        program = make_program(module, x)
        results = []
        for _ in range(RUNS):
            y = program(x)
            y.pow(2).mean().backward()
            results.append(y.detach())
        gradients = [p.grad for p in module.parameters()]
        return results, gradients, copied(program)(x).detach()

    assert_same(use, ignore=["stride"], **CLOSE)


@MADE
@pytest.mark.parametrize("name", ["convolutions", "lstm", *WITH_FAST_PATHS])
def test_without_gradients(make_program, name):
    def use(device):
        module, x = make(name, device, False)
        with torch.no_grad():
            program = make_program(module, x)
            frozen = torch.jit.freeze(torch.jit.script(module))
            return program(x), frozen(x), copied(frozen)(x)

    assert_same(use, ignore=["stride"], **CLOSE)


@pytest.mark.parametrize("name", WITH_FAST_PATHS)
def test_torchs_check_of_a_trace(name):
    def use(device):
        module, x = make(name, device, False)
        with torch.no_grad():
            return torch.jit.trace(module, x, check_trace=True)(x)

    assert_same(use, ignore=["stride"], **CLOSE)


@pytest.mark.parametrize("name", ["perceptron", "convolutions", "lstm", "writes"])
def test_files_of_the_cpu_are_loaded_to_the_device_and_back(name):
    module, x = make(name, "cpu", False)
    program = torch.jit.script(module)
    expected = copied(program)(x)
    ours = copied(program, "lazuli")
    assert {p.device.type for p in ours.parameters()} == {"lazuli"}
    torch.testing.assert_close(ours(x.to("lazuli")).cpu(), expected, **CLOSE)
    back = copied(copied(program, "lazuli"), "cpu")
    assert {p.device.type for p in back.parameters()} == {"cpu"}
    assert torch.equal(back(x), expected)


def test_functions_with_control_flow():
    @torch.jit.script
    def collatz(x: torch.Tensor) -> torch.Tensor:
        steps = torch.zeros([1], dtype=torch.int64, device=x.device)
        while bool((x > 1).any()):
            odd = x % 2 == 1
            x = torch.where(x > 1, torch.where(odd, 3 * x + 1, x // 2), x)
            steps += 1
        return steps

    assert_same(lambda device: collatz(torch.tensor([6, 7]).to(device)))


def test_functions_that_run_beside_each_other():
    def run(device):
        class Forked(nn.Module):
            def forward(self, x: torch.Tensor):
                later = torch.jit.fork(torch.mm, x, x)
                return torch.jit.wait(later) + x.sin()

        x = torch.randn(4, 4).to(device)
        return torch.jit.script(Forked())(x)

    assert_same(run)


def test_trace_of_functions_and_methods():
    def run(device):
        x = torch.randn(3, 4).to(device)
        traced = torch.jit.trace(lambda x: (x.exp() * 2)[:, 1:].sum(1), x)
        module, data = make("perceptron", device)
        methods = torch.jit.trace_module(module, {"forward": data})
        return traced(x), traced(x + 1), methods(data).detach()

    assert_same(run)


def test_wrong_shapes_are_the_same_errors():
    def run(device):
        @torch.jit.script
        def product(a, b):
            return a @ b

        product(torch.ones(2, 3).to(device), torch.ones(2, 3).to(device))

    assert "mat1 and mat2 shapes cannot be multiplied" in assert_same_error(run, RuntimeError)
