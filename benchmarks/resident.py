"""The memory of this process that is resident, and the most of it.

The code of libraries is not counted: each page of their files is made resident before a measurement
begins. So it makes no difference which code runs in it, and what is counted is what was allocated.
"""

import contextlib
import ctypes
import gc
import mmap
from collections.abc import Iterator
from pathlib import Path

_POPULATE_READ = 22  # MADV_POPULATE_READ, which Python's mmap does not name yet
_STATUS, _MAPS = Path("/proc/self/status"), Path("/proc/self/maps")


def _bytes_of(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def now() -> int:
    """Bytes that are resident."""
    return _bytes_of("VmRSS:")


def anonymous() -> int:
    """Bytes that are resident, without those of files."""
    return _bytes_of("RssAnon:")


def peak() -> int:
    """The most bytes that were resident since `reset_peak`."""
    return _bytes_of("VmHWM:")


def reset_peak() -> None:
    """The peak becomes what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def _touch_libraries() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for line in _MAPS.read_text().splitlines():
        addresses, permissions, _, _, _, *file = line.split(maxsplit=5)
        if not permissions.startswith("r") or not file or not file[0].startswith("/"):
            continue
        begin, end = (int(address, 16) for address in addresses.split("-"))
        pages = ctypes.c_void_p(begin), ctypes.c_size_t(end - begin)
        if libc.madvise(*pages, _POPULATE_READ) != 0:  # past the end of a file, say
            libc.madvise(*pages, mmap.MADV_WILLNEED)


def settle() -> int:
    """Frees what can be, and makes all code resident; returns the bytes that are resident then."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _touch_libraries()
    return now()


@contextlib.contextmanager
def growth() -> Iterator[dict[str, int]]:
    """Gives `before` and, after the block, `peak`: by how many bytes it grew at most."""
    result = {"before": settle()}
    reset_peak()
    yield result
    result["peak"] = peak() - result["before"]
