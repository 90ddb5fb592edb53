"""Makes torch know the device: its name, its module `torch.lazuli`, its tensor methods."""

import atexit
import os
import types
from pathlib import Path

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torch_lazuli import libraries, library
from torch_lazuli.front import Front
from torch_lazuli.library import LibraryError
from torch_lazuli.loader import Loader
from torch_lazuli.torch_internals import distributed, optimizers

NAME = "lazuli"


def register() -> None:
    """Registers the device; its first use loads the plugin.

    Raises LibraryError if there is no plugin for this torch, or another one has the place.
    """
    path = library.find(torch.__version__)
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", NAME):
        raise LibraryError(
            f"torch has room for one device from outside, and '{taken}' is there already; "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 loads none by itself"
        )
    loader = Loader(library.loader_of(path))
    torch.utils.rename_privateuse1_backend(NAME)
    front = Front(lambda: _load(path, loader))
    loader.load_with(front._lazy_init)
    torch._register_device_module(NAME, front)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    distributed.register()
    optimizers.know_that_nothing_is_captured()
    libraries.watch()
    atexit.register(_process_ends, front)


def _load(path: Path, loader: Loader) -> types.ModuleType:
    # Modes of the user's are not told of what Lazuli asks its own operators meanwhile.
    with loader.loading(), _disable_current_modes():
        library.load(path)
        if error := torch.ops.lazuli._environment_error():
            raise LibraryError(error)
        from torch_lazuli import device_module
        from torch_lazuli.torch_internals import replacements

        replacements.apply(path)
    libraries.report_unknown_versions()
    if os.environ.get("LAZULI_REPORT"):
        from torch_lazuli.report import of_process

        of_process.start()
    return device_module


def _process_ends(front: Front) -> None:
    if front.is_initialized():
        from torch_lazuli import metrics

        # Work that still goes to a GPU must be over before CUDA shuts down.
        torch.ops.lazuli._process_ends()
        metrics.write()
