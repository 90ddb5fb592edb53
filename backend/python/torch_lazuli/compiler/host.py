"""Graphs of tensors that are not the device's, but of the device behind it.

Such a graph is traced with tensors of the device in the places of its own (`stand_ins.py`). So it
gets the operators that the device has, and is recorded as a graph of the device is. A call takes
its arguments' memory over, and gives tensors over the results' memory back. What a forward keeps
for its backward stays on the device.
"""

import contextlib

import torch

from torch_lazuli.compiler.captured import (
    Captured,
    RunsOpByOp,
    may_be_captured,
    unseen,
    values_of,
    with_tensors,
)
from torch_lazuli.devices import TYPE
from torch_lazuli.operators import ops
from torch_lazuli.torch_internals.compilation import is_autograd_compiled

_graph_call_behind = ops._graph_call_behind.default


class Host(Captured):
    """Runs a graph on the memory of its arguments, and returns tensors over the results' memory.

    All results are computed when a call returns: who called does not know the device. Random
    numbers follow from the seed and the state of the arguments' own generator, which goes on.
    """

    def __init__(
        self, module: torch.fx.GraphModule, is_whole: bool = False, outputs: int | None = None
    ):
        """As of Captured, of a graph that has passed check().

        Raises RunsOpByOp for a graph that gets or gives complex numbers.
        """
        for node in module.graph.nodes:
            of_caller = [node] if node.op == "placeholder" else node.all_input_nodes
            if node.op in {"placeholder", "output"} and any(map(_is_complex, of_caller)):
                raise RunsOpByOp("complex numbers go into it, or out of it")
        super().__init__(module, is_whole, outputs)
        results = next(node for node in module.graph.nodes if node.op == "output").args[0]
        # How many of those that are tensors are given back; the others stay on the device.
        self._all = sum(len(values_of(x)) for x in results if _is_node(x))
        self._given = sum(len(values_of(x)) for x in results[:outputs] if _is_node(x))
        self._seeded = _seeded if any(map(_draws, module.graph.nodes)) else contextlib.nullcontext

    def __call__(self, arguments: list) -> list:
        with self._seeded():
            return super().__call__(arguments)

    def _call(self, tensors: list[torch.Tensor], sizes: list[int]):
        return _graph_call_behind(self._graph, tensors, sizes, self._to_give())

    def _to_give(self) -> int:
        return self._all if self._given < self._all and is_autograd_compiled() else self._given

    def _run_by_ops(self, arguments: list, tensors: list[torch.Tensor], sizes: list[int] | None):
        originals = [a for a in arguments if isinstance(a, torch.Tensor)]
        with unseen():
            memory, taken = ops._graph_take_over(originals)
        if memory < 0:
            raise RuntimeError("lazuli: a compiled graph got a tensor whose memory cannot be used")
        try:
            replaced = with_tensors(arguments, taken)
            arguments.clear()
            results = super()._run_by_ops(replaced, [*taken, *tensors[len(taken) :]], sizes)
            made = [r for r in results if isinstance(r, torch.Tensor)]
            with unseen():
                given = ops._graph_give_back(memory, made, self._to_give())
            return with_tensors(results, given)
        finally:
            ops._graph_let_go(memory)


def check(module: torch.fx.GraphModule) -> None:
    """Raises RunsOpByOp for a graph, traced on the device, that shall not be given to it."""
    if not may_be_captured(module):
        raise RunsOpByOp("it may do something else each time")
    for node in module.graph.nodes:
        if node.op == "output" and any(x.op == "get_attr" for x in node.all_input_nodes):
            raise RunsOpByOp("a result is a constant")
        if not _draws(node):
            continue
        if ops._draws_as_eager():
            raise RunsOpByOp("it draws random numbers, which are to be eager's")
        if "recompute" in node.meta:
            raise RunsOpByOp("it draws random numbers, and has to draw the same again")


def _is_node(result) -> bool:
    return isinstance(result, torch.fx.Node)


def _is_complex(node: torch.fx.Node) -> bool:
    return any(value.dtype.is_complex for value in values_of(node))


def _draws(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    # Attention draws only where it has dropout.
    given = dict(zip((a.name for a in node.target._schema.arguments), node.args, strict=False))
    defaults = {a.name: a.default_value for a in node.target._schema.arguments}
    return (defaults | given | node.kwargs).get("dropout_p", 1.0) != 0.0


@contextlib.contextmanager
def _seeded():
    """This thread draws meanwhile what follows from the state of the backing device's generator."""
    behind = ops._backing()
    ours = torch.Generator(device=TYPE)
    if behind.type == "cpu":
        drawn = torch.empty((), dtype=torch.int64, device="cpu").random_()
        ours.manual_seed(int(drawn))
    else:
        theirs = torch.cuda.default_generators[behind.index or 0]
        ours.manual_seed(theirs.initial_seed())
        ours.set_offset(theirs.get_offset())
    ops._draw_with(ours)
    try:
        yield
    finally:
        ops._draw_with(None)
        if behind.type != "cpu":
            theirs.set_offset((ours.get_offset() + 3) // 4 * 4)  # torch asks for multiples of 4
