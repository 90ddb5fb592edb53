"""backend/python/torch_lazuli/torch_internals/compilation.py"""

import pytest
import torch
from torch._decomp import decompositions
from torch._decomp.decompositions import lstm_impl
from torch._subclasses import functional_tensor
from torch.export import exported_program
from torch.fx.experimental import proxy_tensor
from torch_lazuli.torch_internals.compilation import RECURRENT


def test_torch_compile_calls_one_function_for_each_graph(monkeypatch):
    graphs = []

    def compile_graph(self, graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    monkeypatch.setattr(torch._TorchCompileInductorWrapper, "__call__", compile_graph)
    assert torch.compile(lambda x: x + 1)(torch.ones(2)).tolist() == [2.0, 2.0]
    torch._dynamo.reset()
    assert len(graphs) == 1, (
        "torch.compile's default backend must be an object of torch._TorchCompileInductorWrapper, "
        "called with a graph and its inputs"
    )


def test_an_lstm_has_a_decomposition_and_a_place_for_it(device):
    kernels = torch.ops.aten.lstm.input.py_kernels
    for key in (torch._C.DispatchKey.PrivateUse1, torch._C.DispatchKey.AutogradPrivateUse1):
        assert key in kernels, "torch must look in `py_kernels` for Python's kernels of an operator"
    lstm = torch.nn.LSTM(3, 4)
    x, state = torch.randn(5, 2, 3), (torch.randn(1, 2, 4), torch.randn(1, 2, 4))
    weights = list(lstm.parameters())
    given = x, state, weights, True, 1, 0.0, False, False, False
    for ours, theirs in zip(lstm_impl(*given), torch.ops.aten.lstm.input(*given), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_networks_have_decompositions_of_these_names(name):
    packet, overload = name.split(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    assert operator.py_kernels[composite] is getattr(decompositions, RECURRENT[name])


def test_one_function_says_what_a_graph_decomposes(spy):
    calls = [spy(m, "autograd_would_have_decomposed") for m in (proxy_tensor, functional_tensor)]
    linear = torch.nn.Linear(2, 2)
    with torch.inference_mode():
        proxy_tensor.make_fx(linear)(torch.ones(1, 2))
    program = torch.export.export(linear, (torch.ones(1, 2),))
    program.run_decompositions()
    for asked in calls:
        assert asked, "tracing must ask this, by that name in the module"
        operator, arguments = asked[0][0]
        assert isinstance(operator, torch._ops.OpOverload)
        assert any(isinstance(x, torch.Tensor) for x in arguments)


def test_an_export_that_keeps_an_lstm_has_a_kernel_for_it(monkeypatch):
    lstm = torch.ops.aten.lstm.input
    found = []
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    replace = exported_program._override_composite_implicit_decomp

    def look(table):
        context = replace(table)
        before = lstm.py_kernels.get(key)
        with context:
            found.append((lstm.py_kernels.get(key), before))
        return replace(table)

    monkeypatch.setattr(exported_program, "_override_composite_implicit_decomp", look)
    program = torch.export.export(torch.nn.LSTM(3, 4), (torch.ones(2, 1, 3),))
    program.run_decompositions({})
    kept, usual = found[-1]
    assert kept is not usual, "an export must put its own kernel into `py_kernels`"


def test_what_attention_gives_in_a_graph_can_be_said_for_a_device(device):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch_lazuli.torch_internals.compilation import know_results_of_attention

    know_results_of_attention()
    attention = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    with FakeTensorMode():
        ours = attention(*(torch.empty(2, 3, 4, 8, device=device) for _ in range(3)))
        others = attention(*(torch.empty(2, 3, 4, 8, device="meta") for _ in range(3)))
    assert ours[6] is None, "`register_op_impl` must be asked before torch's own kernels for graphs"
    assert others[6] is not None, (
        "torch no longer promises a state of dropout: know_results_of_attention may go"
    )
