"""A graph of tensors of the device behind ours, with tensors of ours in their places."""

import contextlib
import operator
from collections.abc import Iterator

import torch
from torch._guards import TracingContext
from torch.multiprocessing.reductions import StorageWeakRef

from torch_lazuli.compiler.captured import RunsOpByOp, unseen
from torch_lazuli.devices import TYPE
from torch_lazuli.operators import ops


def moved(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of Dynamo's graph on the device: what it makes, moves to and knows is there.

    Raises RunsOpByOp for a graph that knows our device by itself, or several others.
    """
    copy = torch.fx.Graph()
    nodes: dict[torch.fx.Node, torch.fx.Node] = {}
    copy.output(copy.graph_copy(graph.graph, nodes))
    result = torch.fx.GraphModule(graph, copy)
    _copy_facts(graph, result, nodes)
    for node in copy.nodes:
        if node.op == "get_attr":
            _move_attribute(result, node)
            continue
        node.args, node.kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), _device)
        if "device" in node.kwargs:
            node.kwargs = node.kwargs | {"device": _named(node.kwargs["device"])}
        if node.op == "call_method" and node.target in ("cpu", "cuda"):
            index = node.args[1] if len(node.args) > 1 else node.kwargs.get("device")
            if index is not None or node.target != ops._backing().type:
                raise RunsOpByOp("it moves a tensor to another device")
            node.target, node.args = "to", (node.args[0], torch.device(TYPE))
        elif (node.op == "call_method" and node.target == "to") or _opens_autocast(node):
            node.args = tuple(map(_named, node.args))
    result.recompile()
    return result


def inputs(given: list) -> list:
    """What stands for Dynamo's inputs: fake tensors of the device that lie in memory as they do.

    Raises RunsOpByOp where they cannot: a tensor has a layout or a type of its own.
    """
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    with unseen():
        if not ops._graph_can_take_over(tensors):
            raise RunsOpByOp("an input has no memory that the device can share")
    made = iter(_beside(list(map(_fake, tensors))))
    return [next(made) if isinstance(x, torch.Tensor) else x for x in given]


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """Autocast and the default device are the device's, where they are those of the device behind.

    Raises RunsOpByOp for the CPU's autocast: other operators cast there than on the device.
    """
    behind = ops._backing().type
    casts = torch.is_autocast_enabled(behind)
    if casts:
        _refuse_the_cpus()
    is_default = torch.get_default_device().type == behind
    with (
        torch.autocast(TYPE, torch.get_autocast_dtype(behind), enabled=casts),
        torch.device(TYPE) if is_default else contextlib.nullcontext(),
    ):
        yield


def _copy_facts(graph, result, nodes: dict[torch.fx.Node, torch.fx.Node]) -> None:
    """What AOTAutograd wants to know of Dynamo's graph, to guard against inputs that overlap."""
    result.meta = dict(graph.meta)
    if hasattr(graph, "_param_name_to_source"):
        result._param_name_to_source = graph._param_name_to_source
    for old, new in nodes.items():
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source


def _refuse_the_cpus() -> None:
    if ops._backing().type == "cpu":
        raise RunsOpByOp("autocast has other lists of operators on the CPU")


def _opens_autocast(node: torch.fx.Node) -> bool:
    if node.target is not torch.amp.autocast_mode._enter_autocast:
        return False
    device, _, enabled, *_ = (*node.args, None, None, True)[:3]
    if _is_behind(device) and enabled is not False:
        _refuse_the_cpus()
    return True


def _is_behind(device: object) -> bool:
    """Whether it is, or names, the device behind ours.

    Raises RunsOpByOp for another one of its type, and for our device.
    """
    behind = ops._backing()
    known = TYPE, behind.type
    if isinstance(device, str) and device.partition(":")[0] in known:
        device = torch.device(device)
    if not isinstance(device, torch.device) or device.type not in known:
        return False
    index = device.index
    if index is None:
        index = torch.cuda.current_device() if device.type == "cuda" else 0
    if device.type == TYPE or index != (behind.index or 0):
        raise RunsOpByOp("it knows a device that is not behind ours")
    return True


def _device(argument: object) -> object:
    named = isinstance(argument, torch.device) and _is_behind(argument)
    return torch.device(TYPE) if named else argument


def _named(argument: object) -> object:
    return TYPE if isinstance(argument, str) and _is_behind(argument) else argument


def _move_attribute(module: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Gives the node an attribute of its own: others may be Dynamo's graph's, too."""
    value = operator.attrgetter(node.target)(module)
    if isinstance(value, torch.nn.Parameter):
        raise RunsOpByOp("parameters are no inputs of the graph")
    name = f"_moved_{node.name}"
    if isinstance(value, torch.fx.GraphModule):
        setattr(module, name, moved(value))
    elif isinstance(value, torch.Tensor) and _is_behind(value.device):
        module.register_buffer(name, value.detach().to(TYPE), persistent=False)
    else:
        return
    node.target = name


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    """As AOTAutograd would have it: with Dynamo's symbols for sizes."""
    context = TracingContext.try_get()
    if context is None or context.fake_mode is None:
        raise RunsOpByOp("it does not come from Dynamo")
    symbolic = context.tensor_to_context.get(tensor)
    source = symbolic.tensor_source if symbolic else None
    return context.fake_mode.from_tensor(
        tensor, symbolic_context=symbolic, source=source, trace=symbolic is None
    )


def _beside(fakes: list[torch.Tensor]) -> list[torch.Tensor]:
    """Fake tensors of the device that share memory as these do."""
    if not fakes:
        return []
    memory: dict[StorageWeakRef, list[torch.Tensor]] = {}
    for fake in fakes:
        memory.setdefault(StorageWeakRef(fake.untyped_storage()), []).append(fake)
    with fakes[0].fake_mode, torch.enable_grad():
        bases = {ref: _base(sharing) for ref, sharing in memory.items()}
        return [_like(f, bases[StorageWeakRef(f.untyped_storage())]) for f in fakes]


def _base(sharing: list[torch.Tensor]) -> torch.Tensor | None:
    """Memory for tensors that are windows on one; None: a tensor that begins its own needs none."""
    first = sharing[0]
    if len(sharing) == 1 and not first._is_view() and first.storage_offset() == 0:
        return None
    if any(other.dtype != first.dtype for other in sharing):
        raise RunsOpByOp("inputs of several types share memory")
    return first.new_empty(first.untyped_storage().nbytes() // first.itemsize, device=TYPE)


def _like(fake: torch.Tensor, base: torch.Tensor | None) -> torch.Tensor:
    if base is None:
        made = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=TYPE)
    else:
        made = base.as_strided(fake.shape, fake.stride(), fake.storage_offset())
    if not fake.requires_grad:
        return made
    made.requires_grad_()
    return made if fake.is_leaf else made.view_as(made)
