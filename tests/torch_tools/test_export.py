"""torch.export: programs of models on the device."""

import io

import pytest
import torch
from differential import assert_same
from tool_models import MODELS, make
from torch.export import Dim, ExportedProgram, export

CLOSE = {"rtol": 1e-3, "atol": 1e-4}


def exported(name, device, train=False):
    module, x = make(name, device, train)
    return export(module, (x,), dynamic_shapes=({0: Dim.AUTO},)), x


def copied(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def operators(program: ExportedProgram) -> list[str]:
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_programs(name):
    def use(device):
        program, x = exported(name, device, train=True)
        loaded = copied(program).module()
        module = program.module()
        module(x).pow(2).mean().backward()
        gradients = [p.grad for p in module.parameters()]
        larger = torch.cat([x, x, x])
        return gradients, module(larger).detach(), loaded(x).detach(), loaded(larger).detach()

    assert_same(use, ignore=["stride"], **CLOSE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_decomposed_programs(name):
    def use(device):
        program, x = exported(name, device)
        return program.run_decompositions().module()(x).detach()

    assert_same(use, ignore=["stride"], **CLOSE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("table", [None, {}], ids=["core", "as they are"])
@pytest.mark.parametrize("name", ["perceptron", "convolutions", "lstm", "embedding"])
def test_decomposed_programs_have_the_operators_of_the_cpus(name, table):
    programs = [exported(name, device)[0] for device in ("cpu", "lazuli")]
    expected, actual = (operators(p.run_decompositions(table)) for p in programs)
    assert actual == expected


@pytest.mark.filterwarnings("ignore")
def test_programs_of_the_cpu_are_moved():
    from torch.export.passes import move_to_device_pass

    program, x = exported("perceptron", "cpu")
    expected = program.module()(x)
    moved = move_to_device_pass(program, "lazuli")
    torch.testing.assert_close(moved.module()(x.to("lazuli")).cpu(), expected, **CLOSE)


def test_traced_functions_have_the_operators_of_the_cpus():
    from torch.fx.experimental.proxy_tensor import make_fx

    def trace(device):
        module, x = make("perceptron", device)
        graph = make_fx(lambda x: module(x).sum())(x)
        return [str(node.target) for node in graph.graph.nodes], graph(x).detach()

    assert_same(trace, rtol=1e-4, atol=1e-5)
