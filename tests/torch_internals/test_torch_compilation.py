"""backend/python/torch_lazuli/torch_internals/compilation.py"""

import torch
from torch._decomp.decompositions import lstm_impl


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
