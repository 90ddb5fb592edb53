"""The memory of captured launches: a pool of torch's CUDA allocator, beside what it gives to others.

Called by the thread that runs traces (`lazy/memory/capture_pool.cpp`), for CUDA device 0.
"""

from contextlib import ExitStack

import torch

_DEVICE = 0
_pool: torch.cuda.MemPool | None = None
_entered = ExitStack()


def enter() -> None:
    """From now on this thread's memory comes from the pool, which is made where there is none."""
    global _pool
    if _pool is None:
        _pool = torch.cuda.MemPool()
    _entered.enter_context(torch.cuda.use_mem_pool(_pool, _DEVICE))


def leave() -> None:
    """Undoes `enter`."""
    _entered.close()


def release() -> None:
    """Gives the pool's memory back: who enters next gets a new one."""
    global _pool
    _pool = None
