"""Fixed samples: which names belong to one is decided by the name alone."""

import zlib

import pytest
from differences import listed, must_differ


def chosen(name: str, share: int) -> bool:
    """Whether a name belongs to the fixed sample of one in `share`."""
    return zlib.crc32(name.encode()) % share == 0


def sample(suite: str, names, share: int, few: int):
    """pytest's parameters for one of the names in `share`: a name, and how many inputs to look at.

    Those that are listed as different fail, perhaps in the last input only: all are looked at.
    """
    reasons = listed(suite, names)
    for name in names:
        if not chosen(name, share):
            continue
        marks = []
        if reason := reasons.get(name):
            marks = [pytest.mark.xfail(reason=reason, strict=must_differ(reason))]
        yield pytest.param(name, None if name in reasons else few, marks=marks, id=name)
