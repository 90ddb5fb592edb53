"""The memory of captured launches: pools of torch's CUDA allocator, beside what it gives to others.

Called by those who run traces (`lazy/memory/capture_pool.cpp`), for CUDA device 0. Each pool has a
number, and is used by one thread at a time.
"""

from contextlib import AbstractContextManager

import torch

_DEVICE = 0
_pools: dict[int, torch.cuda.MemPool] = {}
_entered: dict[int, AbstractContextManager] = {}


def enter(number: int) -> None:
    """From now on this thread's memory comes from the pool, which is made where there is none."""
    if number not in _pools:
        _pools[number] = torch.cuda.MemPool()
    inside = torch.cuda.use_mem_pool(_pools[number], _DEVICE)
    inside.__enter__()
    _entered[number] = inside


def leave(number: int) -> None:
    """Undoes `enter`."""
    _entered.pop(number).__exit__(None, None, None)


def release(number: int) -> None:
    """Gives the pool's memory back: who enters next gets a new one."""
    _pools.pop(number, None)
