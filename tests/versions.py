"""Which torch runs, for tests of what its versions do differently."""

import pytest
import torch

TORCH = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])

names_dimensions = pytest.mark.skipif(
    not hasattr(torch.Tensor, "refine_names"), reason="torch has no names of dimensions since 2.13"
)


def name_in_errors(node: str) -> str:
    """How errors call an autograd node: without "Backward0" since torch 2.13."""
    return node if TORCH < (2, 13) else node.removesuffix("Backward0")
