"""The plugin's functions (backend/module.cpp) for this package; the first call loads it."""

import torch


class _Operators:
    def __getattr__(self, name: str):
        torch.lazuli._lazy_init()
        function = getattr(torch.ops.lazuli, name)
        setattr(self, name, function)
        return function


ops = _Operators()
