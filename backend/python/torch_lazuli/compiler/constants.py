"""Numbers that a graph has of its own, such as `torch.tensor([1, 2], device=x.device)` gives."""

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


def _is_on_the_device(node: torch.fx.Node) -> bool:
    """Whether it is computed, and all that it gives is there."""
    tensors = values_of(node)
    return (
        node.op == "call_function" and bool(tensors) and all(t.device.type == TYPE for t in tensors)
    )
