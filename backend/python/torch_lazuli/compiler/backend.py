"""What torch.compile calls: a backend that gives each graph to the device."""

import itertools
import logging
from collections.abc import Callable

import torch

from torch_lazuli.compiler.captured import Captured
from torch_lazuli.compiler.host import Host
from torch_lazuli.compiler.masks import look_at_masks, partition
from torch_lazuli.devices import TYPE
from torch_lazuli.operators import ops
from torch_lazuli.torch_internals.compilation import attention_kept, save_random_states_in_graphs

log = logging.getLogger(__name__)


def lazuli(graph: torch.fx.GraphModule, inputs: list, *, mode: str | None = None, options=None):
    """Compiles a graph of tensors of the device, or of the device behind it.

    A graph of tensors of other devices runs op by op where they are. `mode` is taken as other
    backends take it, and changes nothing. Raises ValueError for `options`: there are none.
    """
    if options:
        raise ValueError(f"the backend lazuli has no options, not {', '.join(sorted(options))}")
    types = device_types(graph, inputs)
    if TYPE in types:
        return _with_autograd(Captured, graph, inputs)
    if types == {ops._backing().type}:
        return _with_autograd(Host, graph, inputs)
    return graph.forward


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


def _with_autograd(kind: type, graph: torch.fx.GraphModule, inputs):
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.exc import TorchDynamoException

    save_random_states_in_graphs()

    def compiled(module: torch.fx.GraphModule, _, is_whole=False) -> Callable[[list], list]:
        captured = kind(module, is_whole=is_whole)

        def run(arguments: list) -> list:  # torch wraps functions, and knows them by this mark
            return captured(arguments)

        run._boxed_call = True
        return run

    def compiled_without_autograd(module: torch.fx.GraphModule, inputs) -> Callable[[list], list]:
        look_at_masks(module)  # else partition() has
        return compiled(module, inputs, is_whole=True)

    compiler = aot_autograd(
        fw_compiler=compiled,
        inference_compiler=compiled_without_autograd,
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    try:
        with attention_kept():
            return compiler(graph, inputs)
    except TorchDynamoException:  # Dynamo's own: it may want to begin anew
        raise
    except Exception as error:
        # The device runs what AOTAutograd cannot trace.
        log.warning("lazuli: a graph runs op by op: %s: %s", type(error).__name__, error)
        return graph.forward
