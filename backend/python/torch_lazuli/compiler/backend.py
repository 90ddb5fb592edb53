"""What torch.compile calls: a backend that gives each graph to the device."""

import itertools
import logging
from collections.abc import Callable

import torch
from torch._dynamo.exc import TorchDynamoException

from torch_lazuli.compiler import stand_ins
from torch_lazuli.compiler.captured import Captured, RunsOpByOp
from torch_lazuli.compiler.constants import make_on_the_device, move_constants
from torch_lazuli.compiler.host import Host, check
from torch_lazuli.compiler.masks import look_at_masks
from torch_lazuli.devices import TYPE
from torch_lazuli.operators import ops
from torch_lazuli.torch_internals.compilation import (
    attention_kept,
    default_partition,
    op_by_op,
    save_random_states_in_graphs,
    writes_to_inputs,
)

log = logging.getLogger(__name__)


def lazuli(graph: torch.fx.GraphModule, inputs: list, *, mode: str | None = None, options=None):
    """Compiles a graph of tensors of the device, or of the device behind it.

    A graph of tensors of other devices runs op by op where they are. So does one of the device
    behind it that may do something else in each call, and what compiled autograd makes of these.
    `mode` is taken as other backends take it, and changes nothing. Raises ValueError for
    `options`: there are none.
    """
    if options:
        raise ValueError(f"the backend lazuli has no options, not {', '.join(sorted(options))}")
    types = device_types(graph, inputs)
    shared = _share_memory(inputs)
    try:
        if TYPE in types:
            return _traced(Captured, graph, inputs, shared)
        if types == {ops._backing().type}:
            moved, fakes = stand_ins.moved(graph), stand_ins.inputs(inputs)
            with stand_ins.settings():
                return _traced(Host, moved, fakes, shared)
    except RunsOpByOp as why:
        log.debug("a graph runs op by op: %s", why)
    except TorchDynamoException:  # Dynamo's own: it may want to begin anew
        raise
    except Exception as error:
        # Eager runs what AOTAutograd cannot trace.
        log.warning("lazuli: a graph runs op by op: %s: %s", type(error).__name__, error)
    return op_by_op(graph, inputs)


def _share_memory(inputs: list) -> bool:
    tensors = (x for x in inputs if isinstance(x, torch.Tensor) and x.layout == torch.strided)
    memory = [t.untyped_storage()._cdata for t in tensors]
    return len(set(memory)) < len(memory)


def device_types(graph: torch.fx.GraphModule, inputs) -> set[str]:
    """The types of devices of a graph's tensors; without any, of those that it makes."""
    # Compiled autograd gives its operands as a list.
    lists = [x if isinstance(x, list | tuple) else (x,) for x in inputs]
    everything = (*itertools.chain(*lists), *graph.parameters(), *graph.buffers())
    if tensors := {t.device.type for t in everything if isinstance(t, torch.Tensor)}:
        return tensors
    made_on = (node.kwargs.get("device") for node in graph.graph.nodes)
    named = {torch.device(device).type for device in made_on if device is not None}
    return named or {torch.get_default_device().type}


def _traced(kind: type, graph: torch.fx.GraphModule, inputs: list, shared: bool):
    """A function of the graph: AOTAutograd traces it, and what it makes of it is of this kind.

    `shared`: some inputs share memory. Raises RunsOpByOp if one of the inputs is written to then:
    AOTAutograd may take no notice of what others see of it.
    """
    from torch._dynamo.backends.common import aot_autograd

    save_random_states_in_graphs()

    def prepare(module: torch.fx.GraphModule) -> None:
        move_constants(module)
        make_on_the_device(module)
        look_at_masks(module)
        if kind is Host:
            check(module)  # a joint one: forward and backward are both given to the device, or none

    outputs = None  # of forward; what it returns besides is for backward

    def partition(joint: torch.fx.GraphModule, *arguments, **named):
        nonlocal outputs
        outputs = named["num_fwd_outputs"]
        prepare(joint)
        return default_partition(joint, *arguments, **named)

    def compiled(
        module: torch.fx.GraphModule, _, is_whole=False, outputs: int | None = None
    ) -> Callable[[list], list]:
        if shared and writes_to_inputs():
            raise RunsOpByOp("it writes to an input that shares memory with another one")
        captured = kind(module, is_whole, outputs)

        def run(arguments: list) -> list:  # torch wraps functions, and knows them by this mark
            return captured(arguments)

        run._boxed_call = True
        return run

    def compiled_without_autograd(module: torch.fx.GraphModule, inputs) -> Callable[[list], list]:
        prepare(module)
        return compiled(module, inputs, is_whole=True)

    compiler = aot_autograd(
        fw_compiler=lambda module, inputs: compiled(module, inputs, outputs=outputs),
        bw_compiler=compiled,
        inference_compiler=compiled_without_autograd,
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    with attention_kept():
        return compiler(graph, inputs)
