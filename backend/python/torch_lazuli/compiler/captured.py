"""A graph without mutation but of its inputs, which runs by being recorded."""

import logging
import operator
import re
import weakref

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.operators import ops
from torch_lazuli.torch_internals.compilation import is_decided_by_data

log = logging.getLogger(__name__)

# Operators of others may do more than compute their results.
_NAMESPACES = {"aten", "prims", "torchvision"}
# Operators that reach memory which their operand does not show.
_BEYOND_OPERANDS = ("as_strided", "set_", "resize", "shallow_copy_data_")
_MOST_FAILURES = 8
# Hides calls whose results are views of their operands from AOTAutograd's check of operators.
unseen = torch._C._DisableTorchDispatch
_graph_call = ops._graph_call.default


class RunsOpByOp(Exception):
    """The graph runs as it does without torch.compile; says why."""


class Captured:
    """Called with a list of tensors and sizes, which it clears, as AOTAutograd's functions are."""

    def __init__(
        self, module: torch.fx.GraphModule, is_whole: bool = False, outputs: int | None = None
    ):
        """A function of a graph.

        `is_whole`: nothing that it computes will be differentiated, so a trace may end after it.
        `outputs`: how many of its results are for the caller; those behind them go to the
        backward of the graph. None: all.
        """
        self._module = module
        self._may_be_captured = may_be_captured(module)
        self._failures = 0  # in a row
        self._constants = _constants(module)
        self._graph = ops._graph_new(is_whole)
        weakref.finalize(self, ops._graph_free, self._graph)
        self.recorded = 0  # how often what was recorded was kept
        self._others: dict[int, list] = {}  # results that are no tensors, by what was recorded
        self._is_of_tensors = all(
            isinstance(node.meta.get("val"), torch.Tensor)
            for node in module.graph.nodes
            if node.op == "placeholder"
        )

    def __call__(self, arguments: list) -> list:
        """The results; inputs that the graph writes to are written to."""
        tensors, sizes = self._split(arguments)
        if self._may_be_captured and sizes is not None:
            number, results = self._call(tensors, sizes)
            if number >= 0:
                arguments.clear()
                return _merged(results, self._others.get(number))
        return self._run_by_ops(arguments, tensors, sizes)

    def _call(self, tensors: list[torch.Tensor], sizes: list[int]):
        """The number of what was recorded once more, below 0 where it is not known, and results."""
        return _graph_call(self._graph, tensors, sizes)

    def _run_by_ops(self, arguments: list, tensors: list[torch.Tensor], sizes: list[int] | None):
        """One op after the other, and records them if that may help the next call."""
        if self._may_be_captured and sizes is not None:
            return self._record(arguments, tensors, sizes)
        return run_as_it_is(self._module, arguments)

    def _split(self, arguments: list) -> tuple[list[torch.Tensor], list[int] | None]:
        if self._is_of_tensors:
            return [*arguments, *self._constants.values()], []
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        sizes = [int(a) for a in arguments if isinstance(a, int)]
        if len(tensors) + len(sizes) < len(arguments):
            return [], None
        return [*tensors, *self._constants.values()], sizes

    def _record(self, arguments: list, tensors: list[torch.Tensor], sizes: list[int]) -> list:
        with unseen():
            capture, stand_ins = ops._graph_begin(tensors, sizes)
        if capture < 0:
            return run_as_it_is(self._module, arguments)
        try:
            count = len(stand_ins) - len(self._constants)
            constants = dict(zip(self._constants, stand_ins[count:], strict=True))
            replaced = with_tensors(arguments, stand_ins[:count])
            arguments.clear()
            results = list(_Reader(self._module, constants).boxed_run(replaced))
        except BaseException:
            ops._graph_drop(capture)
            raise
        made = [r for r in results if isinstance(r, torch.Tensor)]
        with unseen():
            number, made, why = ops._graph_end(self._graph, capture, made)
        if number >= 0:
            self._failures = 0
            self.recorded += 1
            others = [None if isinstance(r, torch.Tensor) else (r,) for r in results]
            if any(others):
                self._others[number] = others
        else:
            log.debug("a graph is recorded op by op: %s", why)
            self._failures += 1
            self._may_be_captured = self._failures < _MOST_FAILURES
        return with_tensors(results, made)


def with_tensors(values: list, tensors: list[torch.Tensor]) -> list:
    """The values, with these tensors in the places of theirs."""
    given = iter(tensors)
    return [next(given) if isinstance(v, torch.Tensor) else v for v in values]


def run_as_it_is(module: torch.fx.GraphModule, arguments: list) -> list:
    """Calls a graph's operators one after the other. Clears the list."""
    given = tuple(arguments)
    arguments.clear()
    return list(module.forward(*given))


def _merged(results: list[torch.Tensor], others: list | None) -> list:
    """With the results that are no tensors, each as a tuple of one, in their places."""
    if others is None:
        return results
    given = iter(results)
    return [next(given) if other is None else other[0] for other in others]


def _constants(module: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors of the device that belong to the graph, by name."""
    names = (node.target for node in module.graph.nodes if node.op == "get_attr")
    values = {name: operator.attrgetter(name)(module) for name in names}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, torch.Tensor) and value.device.type == TYPE
    }


def values_of(node: torch.fx.Node) -> list[torch.Tensor]:
    """The tensors that it gives, as the trace knows them."""
    values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    return [v for v in values if isinstance(v, torch.Tensor)]


def may_be_captured(module: torch.fx.GraphModule) -> bool:
    """Whether the graph does the same ops each time, as far as its nodes tell."""
    return all(map(_does_the_same, module.graph.nodes))


def _does_the_same(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return node.op in {"placeholder", "output", "get_attr"}
    if isinstance(node.target, torch._ops.OpOverload):
        # A tensor of another device may hold random numbers, which would be recorded as constants.
        devices = {value.device.type for value in values_of(node)}
        namespace, _, name = node.target._schema.name.partition("::")
        is_known = namespace in _NAMESPACES and (
            not name.startswith(_BEYOND_OPERANDS)
            or (name.startswith("as_strided") and _is_made_by_the_graph(node.args[0]))
        )
        return is_known and devices <= {TYPE} and not is_decided_by_data(node)
    # Else it is arithmetic on sizes.
    return not isinstance(node.target, torch._ops.HigherOrderOperator)


def _is_made_by_the_graph(node: torch.fx.Node) -> bool:
    """Whether its memory is the graph's own: not an input's, of which it may show a part."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        operator = node.target
        if not isinstance(operator, torch._ops.OpOverload):
            return False
        composite = "CompositeImplicitAutograd"  # may return its operand, and does not say so
        if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), composite):
            return False
        if all(r.alias_info is None for r in operator._schema.returns):
            return True
        node = node.args[0]
    return False


class _Reader(torch.fx.Interpreter):
    """Runs a graph op by op, each as the code of the Python line that it comes from."""

    extra_traceback = False  # errors are eager's

    def __init__(self, module: torch.fx.GraphModule, constants: dict[str, torch.Tensor]):
        super().__init__(module)
        self._replaced = constants

    def boxed_run(self, arguments: list):
        try:
            return super().boxed_run(arguments)
        finally:
            ops._set_line("")

    def run_node(self, node: torch.fx.Node):
        ops._set_line(_line(node))
        return super().run_node(node)

    def get_attr(self, target, args, kwargs):
        found = self._replaced.get(target)
        return super().get_attr(target, args, kwargs) if found is None else found


_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LIBRARIES = ("/torch/", "/torch_lazuli/", "<frozen")


def _line(node: torch.fx.Node) -> str:
    """The innermost line outside of torch, as file:line; empty if none is known."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    for file, number in reversed(frames):
        if not any(part in file for part in _LIBRARIES):
            return f"{file}:{number}"
    return ""
