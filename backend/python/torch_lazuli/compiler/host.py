"""Graphs of tensors that are not the device's, but of the device behind it: nothing is copied."""

import torch

from torch_lazuli.compiler.captured import Captured, run_as_it_is, unseen, with_tensors
from torch_lazuli.devices import TYPE
from torch_lazuli.operators import ops


class Host:
    """Runs a graph on the memory of its arguments, and returns tensors over the results' memory.

    The results are computed when a call returns: who called does not know the device. A graph that
    has to be recorded op by op each time is left to torch's own kernels. So is one that draws
    random numbers, which come from the generator of the tensors' own device, and a call with a
    tensor that has no memory of its own, or other numbers in it (quantized, conjugated).
    """

    def __init__(self, module: torch.fx.GraphModule, is_whole: bool = False):
        self._module = module
        self._draws = any(_draws(node) for node in module.graph.nodes)
        self._captured = Captured(_moved(module), ops._backing().type, is_whole)

    def __call__(self, arguments: list) -> list:
        if self._draws or not self._captured.may_be_captured:
            return run_as_it_is(self._module, arguments)
        originals = [a for a in arguments if isinstance(a, torch.Tensor)]
        with unseen():
            taken, kept = ops._graph_take_over(originals)
        if len(taken) < len(originals):
            return run_as_it_is(self._module, arguments)
        replaced = with_tensors(arguments, taken)
        arguments.clear()
        results = self._captured(replaced)
        made = [r for r in results if isinstance(r, torch.Tensor)]
        with unseen():
            given = ops._graph_give_back(originals, taken, made)
        del kept  # the memory is the caller's: until here no result may take it over
        return with_tensors(results, given)


def _draws(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    # Attention draws only where it has dropout.
    given = dict(zip((a.name for a in node.target._schema.arguments), node.args, strict=False))
    defaults = {a.name: a.default_value for a in node.target._schema.arguments}
    return (defaults | given | node.kwargs).get("dropout_p", 1.0) != 0.0


def _moved(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph on the device: what it makes, moves to and knows is there."""
    device = torch.device(TYPE)
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    moved = torch.fx.GraphModule(module, graph)
    for node in graph.nodes:
        if node.op == "get_attr":
            owner, _, name = node.target.rpartition(".")
            holder = moved.get_submodule(owner)
            value = getattr(holder, name)
            if isinstance(value, torch.Tensor):
                setattr(holder, name, value.detach().to(device))
        node.args, node.kwargs = torch.fx.node.map_aggregate(
            (node.args, node.kwargs), lambda a: device if isinstance(a, torch.device) else a
        )
    moved.recompile()
    return moved
