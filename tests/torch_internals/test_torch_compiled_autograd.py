"""backend/torch_internals/compiled_autograd.h"""

import torch
from torch._dynamo import compiled_autograd


def test_a_node_becomes_a_call_in_the_graph(device):
    graphs = []

    def compiler(graph):
        graphs.append(graph.print_readable(print_output=False))
        return graph

    x = torch.ones(2, device=device, requires_grad=True)
    with compiled_autograd._enable(compiler):
        (x.exp() * 3).view(1, 2).sum().backward()
    assert "lazuli" in graphs[0].lower(), (
        "PyCompilerInterface::bind_function and call_function must put a function of ours into the "
        f"graph of a backward:\n{graphs[0]}"
    )
    torch.testing.assert_close(x.grad.cpu(), 3 * torch.ones(2).exp())
