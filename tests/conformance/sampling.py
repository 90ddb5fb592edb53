"""Fixed samples: which names belong to one is decided by the name alone."""

import zlib


def chosen(name: str, share: int) -> bool:
    """Whether a name belongs to the fixed sample of one in `share`."""
    return zlib.crc32(name.encode()) % share == 0
