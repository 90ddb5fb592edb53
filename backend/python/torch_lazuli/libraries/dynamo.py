"""TorchDynamo: the names of its backends."""

import types


def teach(module: types.ModuleType) -> None:
    """Adds `lazuli`, whose code is imported when a graph is compiled."""

    def lazuli(graph, inputs, **options):
        from torch_lazuli.compiler.backend import lazuli as compile_graph

        return compile_graph(graph, inputs, **options)

    module.register_backend(lazuli)
