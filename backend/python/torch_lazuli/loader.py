"""The small library that tells torch of the device, and asks for the plugin (backend/loader/)."""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

from torch_lazuli.library import LibraryError

_LOAD = ctypes.CFUNCTYPE(ctypes.c_char_p)


class Loader:
    """The loaded library."""

    def __init__(self, path: Path):
        """Loads it into torch: the device is known from here on. Raises LibraryError."""
        import torch  # brings the libraries that it needs

        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise LibraryError(
                f"{path} does not load in torch {torch.__version__}: {error}"
            ) from error
        self._error = b""

    def load_with(self, load: Callable[[], None]) -> None:
        """Calls `load` when something needs the plugin. What it raises is torch's error then."""

        def ask() -> bytes | None:
            try:
                load()
            except Exception as error:
                self._error = f"lazuli: {error}".encode()
                return self._error
            return None

        self._ask = _LOAD(ask)
        self._library.lazuli_load_with(self._ask)

    @contextlib.contextmanager
    def makes_way(self) -> Iterator[None]:
        """While the plugin is loaded, whose kernels take the place of the library's."""
        self._library.lazuli_make_way()
        try:
            yield
        except BaseException:
            self._library.lazuli_load_with(self._ask)
            raise
