"""Makes torch know the device: its name, its module `torch.lazuli`, its tensor methods."""

import atexit
import types
from pathlib import Path

import torch

from torch_lazuli import library
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
    torch.utils.rename_privateuse1_backend(NAME)
    loader = Loader(library.loader_of(path))
    front = Front(lambda: _load(path, loader))
    loader.load_with(front._lazy_init)
    torch._register_device_module(NAME, front)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    distributed.register()
    optimizers.know_that_nothing_is_captured()


def _load(path: Path, loader: Loader) -> types.ModuleType:
    with loader.makes_way():
        library.load(path)
    if error := torch.ops.lazuli._environment_error():
        raise LibraryError(error)
    from torch_lazuli import device_module, metrics
    from torch_lazuli.torch_internals import replacements

    replacements.apply(path)
    # Work that still goes to a GPU must be over before CUDA shuts down.
    atexit.register(torch.ops.lazuli._process_ends)
    metrics.write_at_exit()
    return device_module
