"""The small library that tells torch of the device, and asks for the plugin (backend/loader/)."""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

from torch_lazuli.library import LibraryError

_LOAD = ctypes.CFUNCTYPE(ctypes.c_void_p)


class Loader:
    """The loaded library."""

    def __init__(self, path: Path):
        """Loads it into torch: the device is known from here on. Raises LibraryError."""
        import torch  # brings the libraries that it needs

        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise LibraryError(f"{path} does not load: {error}") from error
        self._library.lazuli_is_registered.restype = ctypes.c_bool
        self._library.lazuli_end_loading.argtypes = [ctypes.c_bool]
        if not self._library.lazuli_is_registered():
            raise LibraryError(
                f"another plugin is torch's device '{torch._C._get_privateuse1_backend_name()}'"
            )

    def load_with(self, load: Callable[[], None]) -> None:
        """Calls `load` when something needs the plugin. What it raises is torch's error then."""

        def ask() -> int | None:
            try:
                load()
            except BaseException as error:
                text = str(error) or type(error).__name__
                text = text if text.startswith("lazuli:") else f"lazuli: {text}"
                self._error = ctypes.create_string_buffer(text.encode())  # outlives the call
                return ctypes.addressof(self._error)
            return None

        self._ask = _LOAD(ask)
        self._library.lazuli_load_with(self._ask)

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Around the loading of the plugin, by this thread. Other threads wait for its end."""
        done = False
        self._library.lazuli_begin_loading()
        try:
            yield
            done = True
        finally:
            self._library.lazuli_end_loading(done)
