"""Attention masks that a graph makes of nothing but constants.

A model whose code is traced makes its causal mask from ranges, where untraced code says
`is_causal` instead: it cannot see whether somebody asks for something else. What follows from
constants is computed here, once. A kernel for causal attention reads no mask, and does half the
work.
"""

import torch

from torch_lazuli.torch_internals.compilation import computed_now

_aten = torch.ops.aten
_FORWARD = _aten._scaled_dot_product_fused_attention_overrideable.default
_BACKWARD = _aten._scaled_dot_product_fused_attention_overrideable_backward.default
_MOST_ELEMENTS = 1 << 26  # of a value on the way to a mask


def look_at_masks(module: torch.fx.GraphModule) -> None:
    """Replaces masks that are constants, where attention can be told the same in a word."""
    known: dict[str, str | None] = {}  # each layer may make the same mask anew
    for node in module.graph.nodes:
        if node.target not in (_FORWARD, _BACKWARD):
            continue
        given = _arguments(node)
        mask = given["attn_bias"]
        if not isinstance(mask, torch.fx.Node) or given["is_causal"]:
            continue
        nodes = _constants_before(mask)
        if nodes is None:
            continue
        how = _how(nodes)
        if how not in known:
            known[how] = _meaning(nodes)
        if known[how] is None:
            continue
        given["attn_bias"] = None
        given["is_causal"] = known[how] == "causal"
        parameters = node.target._schema.arguments
        node.args = tuple(given.pop(p.name) for p in parameters if not p.kwarg_only)
        node.kwargs = given
    if any(known.values()):
        module.graph.eliminate_dead_code()
        module.recompile()


def _arguments(node: torch.fx.Node) -> dict[str, object]:
    parameters = node.target._schema.arguments
    given = {p.name: p.default_value for p in parameters}
    given |= dict(zip((p.name for p in parameters), node.args, strict=False))
    return given | node.kwargs


def _how(nodes: list[torch.fx.Node]) -> str:
    """How the last of them is computed, whatever they are called."""
    numbers = {node: f"%{number}" for number, node in enumerate(nodes)}
    steps = (
        (str(node.target), torch.fx.node.map_arg((node.args, node.kwargs), numbers.__getitem__))
        for node in nodes
    )
    return repr(list(steps))


def _meaning(nodes: list[torch.fx.Node]) -> str | None:
    """What the mask, the last of them, opens: "causal", "everything"; None: something else."""
    with computed_now():
        value = _computed(nodes)
        if value.dim() < 2 or value.numel() == 0:
            return None
        bias = torch.zeros((), dtype=value.dtype)
        if bool((value == bias).all()):
            return "everything"
        rows, keys = value.shape[-2:]
        if rows != keys:  # one that is aligned at its end is not what the kernels mean
            return None
        future = torch.ones(rows, keys, dtype=torch.bool).triu(1)
        causal = torch.zeros(rows, keys, dtype=value.dtype).masked_fill(future, -torch.inf)
        return "causal" if torch.equal(value, causal.expand_as(value)) else None


def _constants_before(mask: torch.fx.Node) -> list[torch.fx.Node] | None:
    """What the mask is computed from, in order, itself the last; None if not all are constants."""
    found: set[torch.fx.Node] = set()
    waiting = [mask]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        if not _is_constant(node):
            return None
        found.add(node)
        waiting += node.all_input_nodes
    return [node for node in mask.graph.nodes if node in found]


def _is_constant(node: torch.fx.Node) -> bool:
    """Whether it does the same each time, if its operands do."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    drawn = torch.Tag.nondeterministic_seeded in node.target.tags
    value = node.meta.get("val")
    return (
        schema.name.partition("::")[0] in {"aten", "prims"}
        and not schema.is_mutable
        and not drawn
        and isinstance(value, torch.Tensor)
        and not any(isinstance(size, torch.SymInt) for size in value.shape)
        and value.numel() <= _MOST_ELEMENTS
    )


def _computed(nodes: list[torch.fx.Node]) -> torch.Tensor:
    values: dict[torch.fx.Node, torch.Tensor] = {}
    for node in nodes:
        arguments, named = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        named = {
            name: torch.device("cpu") if isinstance(x, torch.device) else x
            for name, x in named.items()
        }
        values[node] = node.target(*arguments, **named)
    return values[nodes[-1]]
