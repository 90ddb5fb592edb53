"""TorchScript finds operators by the identity of a function: see torch_internals/scripting.py."""

import functools

import torch
from torch.jit import _builtins
from torch_lazuli.torch_internals.scripting import compile_as


def test_an_operator_is_found_by_identity():
    assert _builtins._find_builtin(torch._C._VariableFunctions.zeros_like) == "aten::zeros_like"
    assert _builtins._get_builtin_table()[id(torch.sin)] == "aten::sin"


def test_a_function_compiles_as_the_one_that_it_replaces(monkeypatch):
    original = torch.ones_like
    replaced = functools.wraps(original)(lambda x: original(x))
    compile_as([(replaced, original), (len, print)])
    monkeypatch.setattr(torch, "ones_like", replaced)

    def double(x):
        return x + torch.ones_like(x)

    assert torch.equal(torch.jit.script(double)(torch.ones(2)), torch.full((2,), 2.0))
