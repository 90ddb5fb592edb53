"""TorchScript in a program that is taken over: it compiles what is replaced as what it replaces.

A script runs in C++, so no device is mapped in it: tensors for which it names none are on the host.
They are moved where they meet one on lazuli.
"""

import inspect

import torch

from torch_lazuli.torch_internals.scripting import compile_as


def install() -> None:
    """Tells TorchScript of all that the other files put in place, so it comes after them."""
    for module in (torch, torch.fft):
        functions = filter(inspect.isfunction, vars(module).values())
        compile_as((function, inspect.unwrap(function)) for function in functions)
