"""`torch.lazuli` before the device is used: a module that loads the plugin when something needs it.

`import torch` loads a small library that tells torch of the device (loader.py). The plugin, its
compiler and what Lazuli replaces in torch are loaded by the first use. So a process that never uses
the device pays next to nothing for it. Torch calls `_lazy_init` before a first tensor, and the
small library calls it in all other cases. The names below are those that need no plugin.
"""

import threading
import types
from collections.abc import Callable
from typing import Any

# What device_module.py has: not imported from there, which would load the plugin.
NAMES = frozenset((
    "Event", "ShadowMismatch", "ShadowReport", "Stream", "config", "current_device",
    "current_stream", "device", "device_count", "device_of", "dump", "empty_cache", "explain",
    "get_amp_supported_dtype", "get_device_name", "get_rng_state", "get_rng_state_all",
    "initial_seed", "is_available", "is_bf16_supported", "is_initialized", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "mem_get_info", "memory_allocated",
    "memory_reserved", "memory_stats", "metrics", "reset_metrics", "reset_peak_memory_stats",
    "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "set_stream", "shadow",
    "stream", "synchronize",
))  # fmt: skip


class Front(types.ModuleType):
    """The module `torch.lazuli`."""

    def __init__(self, load: Callable[[], types.ModuleType]):
        super().__init__("torch.lazuli")
        self._load = load
        self._lock = threading.RLock()
        self._module: types.ModuleType | None = None
        self._begun = False
        self._seed: int | None = None

    def _lazy_init(self) -> None:
        """Loads the plugin, once. Raises LibraryError if it does not load."""
        if self._module is not None:
            return
        with self._lock:
            if self._begun:  # by this thread: loading uses the device
                return
            self._begun = True
            try:
                module = self._load()
                if self._seed is not None:
                    module.manual_seed_all(self._seed)
                self.__doc__, self._module = module.__doc__, module
            finally:
                self._begun = self._module is not None

    def __getattr__(self, name: str) -> Any:
        if name == "_initialized":  # restores random states: torch.utils.checkpoint
            return self._module is not None
        if name not in NAMES:
            raise AttributeError(f"module 'torch.lazuli' has no attribute '{name}'")
        self._lazy_init()
        value = getattr(self._module, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted(NAMES)

    # What torch asks of every device, and what costs nothing to know.

    def is_available(self) -> bool:
        """Whether the device can be used: true where there is a plugin for the running torch."""
        return True

    def is_initialized(self) -> bool:
        """Whether the device has been used."""
        return self._module is not None

    def device_count(self) -> int:
        """How many lazuli devices there are: one."""
        return 1

    def manual_seed_all(self, seed: int) -> None:
        """Seeds the generators of all devices; `torch.manual_seed` calls this."""
        if self._module is None:
            self._seed = seed
        else:
            self._module.manual_seed_all(seed)

    def _is_in_bad_fork(self) -> bool:
        """Whether this process was forked from one that used a GPU, which CUDA cannot bear."""
        return self._module is not None and self._module._is_in_bad_fork()
