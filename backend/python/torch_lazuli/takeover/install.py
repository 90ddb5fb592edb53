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
    generators,
    loading,
    precision,
    tensors,
)
from torch_lazuli.takeover.policy import state
from torch_lazuli.takeover.request import VARIABLE, Request

_is_installed = False


def take_over(request: Request) -> None:
    """Maps what is asked for to lazuli, here and in child processes, from here on."""
    global _is_installed
    os.environ[VARIABLE] = str(request)
    state.start(request)
    if request.cpu:
        _allow_mixed_operands()
    if not _is_installed:
        _is_installed = True
        _install()


def _install() -> None:
    tensors.install()
    factories.install()
    draws.install()
    generators.install()
    defaults.install()
    precision.install()
    files.install()
    loading.install()
    distributed.install()
    if state.cuda:
        cuda.install()


def _allow_mixed_operands() -> None:
    """Tensors of such a program are partly on the host."""
    os.environ.setdefault("LAZULI_MOVE_HOST_OPERANDS", "1")
    if torch.lazuli.is_initialized():
        torch.lazuli.config.move_host_operands = True
