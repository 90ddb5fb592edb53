"""The few places where torch's Python has to know the device.

Each replaces a function of torch by one that does the same for every other device.
"""

import functools

import torch
import torch._tensor_str
from torch.optim.optimizer import register_optimizer_step_post_hook

from torch_lazuli.devices import TYPE

_applied = False


def apply() -> None:
    """Puts all patches in place, once."""
    global _applied
    if _applied:
        return
    _applied = True
    _print_from_the_host()
    _read_and_write_storages_through_the_host()
    _take_the_engine_back_after_compiled_autograd()
    register_optimizer_step_post_hook(_end_step)


def _take_the_engine_back_after_compiled_autograd() -> None:
    """Compiled autograd uses the same hook of torch's engine, and leaves it empty."""
    module = torch._C._dynamo.compiled_autograd
    original = module.set_autograd_compiler

    @functools.wraps(original)
    def set_autograd_compiler(compiler, *args):
        result = original(compiler, *args)
        if compiler is None:
            torch.ops.lazuli._take_engine()
        return result

    module.set_autograd_compiler = set_autograd_compiler


def _print_from_the_host() -> None:
    """Copies a tensor to the host before it is printed: torch asks for its numbers one by one."""
    original = torch._tensor_str._tensor_str

    @functools.wraps(original)
    def tensor_str(self, indent):
        return original(self.detach().cpu() if self.device.type == TYPE else self, indent)

    torch._tensor_str._tensor_str = tensor_str


def _read_and_write_storages_through_the_host() -> None:
    """Keeps torch from reading a storage's memory directly, which may not exist yet.

    These two are behind `pickle` and the older file format of `torch.save`; the newer one copies
    to the host by itself.
    """
    write, read = torch.UntypedStorage._write_file, torch.UntypedStorage._set_from_file

    @functools.wraps(write)
    def write_file(self, *args, **kwargs):
        return write(self.cpu() if self.device.type == TYPE else self, *args, **kwargs)

    @functools.wraps(read)
    def set_from_file(self, *args, **kwargs):
        if self.device.type != TYPE:
            return read(self, *args, **kwargs)
        host = torch.UntypedStorage(self.nbytes())
        read(host, *args, **kwargs)
        self.copy_(host)
        return self

    torch.UntypedStorage._write_file = write_file
    torch.UntypedStorage._set_from_file = set_from_file


def _end_step(optimizer: torch.optim.Optimizer, args, kwargs) -> None:
    """Ends the trace after an optimizer's step, so that a training loop repeats one trace."""
    for group in optimizer.param_groups:
        parameters = group["params"]
        if parameters and parameters[0].device.type == TYPE:
            torch.ops.lazuli._step_end()
            return
