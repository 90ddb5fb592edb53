"""`torch.lazuli` before the device is used: a module that loads the plugin when something needs it.

`import torch` loads a small library that tells torch of the device (loader.py). The plugin, its
compiler and what Lazuli replaces in torch are loaded by the first use. So a process that never uses
the device pays next to nothing for it. Torch calls `_lazy_init` before a first tensor, and the
small library calls it in all other cases. The methods of `Front` need no plugin; all other names
of the module load it.
"""

import importlib.machinery
import os
import threading
import types
from collections.abc import Callable
from typing import Any

from torch_lazuli.library import LibraryError

# What device_module.py has: not imported from there, which would load the plugin.
NAMES = frozenset((
    "Event", "Report", "ShadowMismatch", "ShadowReport", "Stream", "StreamContext",
    "can_device_access_peer", "config", "current_device", "current_stream", "default_generators",
    "default_stream", "device", "device_count", "device_of", "dump", "empty_cache", "explain",
    "get_amp_supported_dtype", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_gencode_flags", "get_rng_state", "get_rng_state_all", "init",
    "initial_seed", "ipc_collect", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_initialized", "is_tf32_supported", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_reserved", "memory_stats", "memory_stats_as_nested_dict",
    "memory_summary", "metrics", "report", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_metrics", "reset_peak_memory_stats", "seed", "seed_all",
    "set_device", "set_rng_state", "set_rng_state_all", "set_stream", "shadow", "stream",
    "synchronize",
))  # fmt: skip

# What torch.cuda has, and what to do without it.
_NOT_HERE = {
    name: "a step that comes again is replayed without it"
    for name in (
        "CUDAGraph",
        "MemPool",
        "graph",
        "graph_pool_handle",
        "graphs",
        "make_graphed_callables",
    )
} | {
    name: "torch.profiler with profile_memory=True shows what holds memory"
    for name in ("memory_snapshot", "_record_memory_history", "_dump_snapshot")
}


class Front(types.ModuleType):
    """The module `torch.lazuli`."""

    # torch.utils.checkpoint restores random states only of devices that say so.
    _initialized = True

    def __init__(self, load: Callable[[], types.ModuleType]):
        super().__init__("torch.lazuli")
        self.__spec__ = importlib.machinery.ModuleSpec("torch.lazuli", None)
        self.__all__ = sorted(NAMES)
        self._load = load
        self._lock = threading.RLock()
        self._module: types.ModuleType | None = None
        self._is_loading = False
        self._failure: BaseException | None = None
        self._seed: int | None = None
        self._settings: dict[str, Any] = {}
        # A child that is forked while another thread loads finds the lock free.
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._lock.release,
        )

    def __reduce__(self):
        return importlib.import_module, ("torch.lazuli",)

    def _lazy_init(self) -> None:
        """Loads the plugin, once. Raises LibraryError if it does not load, or did not before."""
        if self._module is not None:
            return
        with self._lock:
            if self._module is not None or self._is_loading:  # by this thread: loading uses it
                return
            if self._failure is not None:
                raise LibraryError(str(self._failure) or "loading was interrupted")
            self._is_loading = True
            try:
                module = self._load()
                # With random="eager" numbers come from torch's generator, which has the seed.
                if self._seed is not None and module.config.random != "eager":
                    module.manual_seed_all(self._seed)
                for name, value in self._settings.items():
                    setattr(module.config, name, value)
                self.__doc__, self._module = module.__doc__, module
            except BaseException as error:
                self._failure = error
                raise
            finally:
                self._is_loading = False

    def __getattr__(self, name: str) -> Any:
        if name not in NAMES:
            advice = f": {_NOT_HERE[name]}" if name in _NOT_HERE else ""
            raise AttributeError(f"module 'torch.lazuli' has no attribute '{name}'{advice}")
        self._lazy_init()
        value = getattr(self._module, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted(NAMES)

    # What torch asks of every device, and what costs nothing to know.

    def is_available(self) -> bool:
        """Whether there is a plugin for the running torch, and it did not fail to load."""
        return self._failure is None

    def is_initialized(self) -> bool:
        """Whether the device has been used."""
        return self._module is not None

    def device_count(self) -> int:
        """How many lazuli devices there are: one."""
        return 1

    def manual_seed_all(self, seed: int) -> None:
        """Seeds the generators of all devices; `torch.manual_seed` calls this.

        Raises ValueError for a number of more than 64 bits.
        """
        if not -(1 << 63) <= int(seed) < 1 << 64:
            raise ValueError(f"lazuli: a seed has 64 bits, which {seed} does not fit in")
        with self._lock:
            if self._module is None:
                self._seed = int(seed)
                return
        self._module.manual_seed_all(seed)

    def set_at_first_use(self, **settings: Any) -> None:
        """Sets settings of `config` now, or when the device is first used.

        Raises AttributeError or ValueError then for settings that `config` would not take.
        """
        with self._lock:
            if self._module is None:
                self._settings |= settings
                return
        for name, value in settings.items():
            setattr(self._module.config, name, value)

    def take_over(self, devices: str = "auto", keep: str = "") -> None:
        """Runs what names other devices on lazuli, from here on and in child processes.

        `devices` are "cuda", "cpu" or "cuda,cpu", without those in `keep`. "auto" is cuda, and cpu
        until the program names cuda. Raises ValueError for other devices. Functions that were
        imported by name before, as `from torch import zeros`, are not replaced.
        """
        from torch_lazuli.takeover import Request, install

        install.take_over(Request.parse(devices, keep))

    def _is_in_bad_fork(self) -> bool:
        """Whether this process was forked from one that used a GPU, which CUDA cannot bear."""
        return self._module is not None and self._module._is_in_bad_fork()
