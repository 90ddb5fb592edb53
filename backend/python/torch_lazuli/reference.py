"""Reference mode, LAZULI_KERNELS=eager: every kernel is torch's own.

Kernels are the plugin's business (backend/reference/reference.cpp). Which of them an optimizer
calls, torch's Python decides (torch_internals/optimizers.py).
"""


def is_on() -> bool:
    """Whether every kernel is torch's own: decided when the plugin is loaded."""
    from torch_lazuli.config import config

    return config.kernels == "eager"
