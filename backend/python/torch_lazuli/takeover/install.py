"""Puts everything in place: at the end of `import torch`, or later when a program asks for it."""

import os

import torch

from torch_lazuli.takeover import (
    cuda,
    defaults,
    distributed,
    draws,
    factories,
    files,
    functions,
    generators,
    loading,
    messages,
    precision,
    scripts,
    tensors,
)
from torch_lazuli.takeover.policy import state
from torch_lazuli.takeover.request import VARIABLE, Request

_is_installed = False
_is_cuda_installed = False


def take_over(request: Request) -> None:
    """Maps what is asked for to lazuli, here and in child processes, from here on."""
    global _is_installed, _is_cuda_installed
    state.start(request)
    os.environ[VARIABLE] = str(state.request)
    if request.cpu:
        _allow_mixed_operands()
    if not _is_installed:
        _is_installed = True
        _install()
    if state.cuda and not _is_cuda_installed:
        _is_cuda_installed = True
        cuda.install()


def _install() -> None:
    tensors.install()
    factories.install()
    draws.install()
    generators.install()
    defaults.install()
    precision.install()
    files.install()
    loading.install()
    functions.install()
    distributed.install()
    scripts.install()
    messages.hint_if_unused()


def _allow_mixed_operands() -> None:
    """Tensors of such a program are partly on the host.

    The environment, which child processes inherit, is left alone: a child asks for itself.
    """
    if os.environ.get("LAZULI_MOVE_HOST_OPERANDS"):
        return
    torch.lazuli.set_at_first_use(move_host_operands=True)
