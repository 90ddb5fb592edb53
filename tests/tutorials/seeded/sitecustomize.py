"""Seeds the random numbers of Python, numpy and torch at start-up, for programs that do not.

On PYTHONPATH of each run of a program. The launcher itself, which becomes the program, needs none.
With TUTORIALS_DISTURBED, a seed, each step of an optimizer begins with parameters that are changed
in their last digit, which shows how far the numbers of a program depend on rounding.
"""

import os
import sys


def seed():
    import random

    import numpy
    import torch

    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def disturb_parameters(seed):
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    generator = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def disturb(optimizer, *_):
        for group in optimizer.param_groups:
            for parameter in filter(torch.is_floating_point, group["params"]):
                last = torch.finfo(parameter.dtype).eps
                signs = torch.randint(-1, 2, parameter.shape, generator=generator)
                parameter.mul_(1 + last * signs)

    register_optimizer_step_pre_hook(disturb)


if "torch_lazuli" not in sys.orig_argv:
    seed()
    if chosen := os.environ.get("TUTORIALS_DISTURBED"):
        disturb_parameters(int(chosen))
