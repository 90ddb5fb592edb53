"""Tensors that follow from a graph alone: `torch.tensor([1, 2], device=x.device)`, or what it makes
on the CPU and then moves, as `torch.arange(n).to(x.device)` does."""

import operator

import torch

from torch_lazuli.compiler.captured import values_of
from torch_lazuli.devices import TYPE
from torch_lazuli.torch_internals.compilation import computed_now

_aten = torch.ops.aten


def move_constants(module: torch.fx.GraphModule) -> None:
    """Moves such tensors to the device once, where only what is on the device reads them.

    Torch's traces have them on the CPU, and copy them in each call. The graph still has a copy of
    its own in each call: a result may be written to.
    """
    moved = False
    for node in module.graph.find_nodes(op="call_function", target=_aten.lift_fresh_copy.default):
        constant = node.args[0]
        if constant.op != "get_attr" or not all(map(_is_on_the_device, node.users)):
            continue
        name = f"_on_the_device_{node.name}"
        with computed_now():
            value = operator.attrgetter(constant.target)(module).to(TYPE)
        module.register_buffer(name, value, persistent=False)
        with module.graph.inserting_before(node):
            constant = module.graph.get_attr(name)
        constant.meta["val"] = node.meta["val"].to(TYPE)
        node.target, node.args = _aten.clone.default, (constant,)
        node.meta["val"] = constant.meta["val"]
        moved = True
    if moved:
        module.graph.eliminate_dead_code()
        module.recompile()


def make_on_the_device(module: torch.fx.GraphModule) -> None:
    """Computes on the device what is computed on the CPU from nothing, and is read on the device.

    So a graph needs no memory but the device's, and no copy.
    """
    moved = {node for node in module.graph.nodes if _is_of_the_cpu(node)}
    while others := {n for n in moved if not _follows_from(n, moved) or not _is_for(n, moved)}:
        moved -= others
    for node in moved:
        if any(a.name == "device" for a in node.target._schema.arguments):
            node.update_kwarg("device", torch.device(TYPE, 0))
        node.meta["val"] = torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda t: t.to(TYPE), node.meta["val"]
        )
    if moved:
        module.recompile()


def _is_of_the_cpu(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    tensors = values_of(node)
    return (
        node.target.namespace == "aten"
        and bool(tensors)
        and all(t.device.type == "cpu" for t in tensors)
        and torch.Tag.nondeterministic_seeded not in node.target.tags
        and not node.target._schema.is_mutable
        and not node.kwargs.get("pin_memory")
    )


def _follows_from(node: torch.fx.Node, made: set[torch.fx.Node]) -> bool:
    """Whether its operands are of these, or sizes."""
    return all(x in made or not _is_tensor(x) for x in node.all_input_nodes)


def _is_tensor(node: torch.fx.Node) -> bool:
    return node.op == "get_attr" or bool(values_of(node))


def _is_for(node: torch.fx.Node, made: set[torch.fx.Node]) -> bool:
    """Whether nobody reads it but these, and what is computed on the device."""
    return all(user in made or _is_on_the_device(user) for user in node.users)


def _is_on_the_device(node: torch.fx.Node) -> bool:
    """Whether it is computed, and all that it gives is there."""
    tensors = values_of(node)
    return (
        node.op == "call_function" and bool(tensors) and all(t.device.type == TYPE for t in tensors)
    )
