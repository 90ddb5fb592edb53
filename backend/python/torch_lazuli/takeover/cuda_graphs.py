"""What of torch.cuda has no counterpart: graphs, kernels of the program's own, NVIDIA's tools."""

import contextlib
import functools
import types
from typing import Any

import torch

from torch_lazuli.takeover.messages import say_once


def _refuse(what: str, instead: str):
    say_once(f"{what} cannot be taken over; {instead}")
    raise NotImplementedError(f"lazuli: {what} cannot be taken over; {instead}")


class CUDAGraph:
    """Raises NotImplementedError: work that repeats is found without it."""

    def __init__(self, *args, **kwargs):
        _refuse("torch.cuda.CUDAGraph", "work that repeats is found without it")


class graph:
    """Raises NotImplementedError: work that repeats is found without it."""

    def __init__(self, *args, **kwargs):
        _refuse("torch.cuda.graph", "work that repeats is found without it")


def _kernel(*args, **kwargs):
    _refuse("a CUDA kernel of the program's own", "the device takes operators of torch only")


def make_graphed_callables(callables, *args, **kwargs):
    """The callables themselves: what repeats is found by the device."""
    say_once("torch.cuda.make_graphed_callables gives the callables back; repeated work is found")
    return callables


NAMES: dict[str, Any] = {
    "CUDAGraph": CUDAGraph,
    "graph": graph,
    "make_graphed_callables": make_graphed_callables,
    "graph_pool_handle": lambda: (0, 0),
    "is_current_stream_capturing": lambda: False,
    "_compile_kernel": _kernel,
}


def install_tools() -> None:
    """Without NVIDIA's libraries, marks for its profiler mark nothing."""
    nvtx, none = torch.cuda.nvtx, lambda *args, **kwargs: 0
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(nvtx, name, none)
    nvtx.range = lambda *args, **kwargs: contextlib.nullcontext()
    torch.cuda.profiler.start = torch.cuda.profiler.stop = none
    names = ("cudaProfilerStart", "cudaProfilerStop", "cudaDeviceSynchronize")
    runtime = types.SimpleNamespace(**dict.fromkeys(names, none))
    torch.cuda.cudart = lambda: runtime
    torch.cuda.jiterator._create_jit_fn = _kernel
    _profile_what_is_there()


def _profile_what_is_there() -> None:
    """Torch's profiler asks for times of CUDA only where a GPU of NVIDIA's is there."""
    profile = torch.autograd.profiler.profile
    original = profile.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        if not _has_gpu():
            kwargs.pop("use_cuda", None)
            if kwargs.get("use_device") == "cuda":
                del kwargs["use_device"]
        original(self, *args, **kwargs)

    profile.__init__ = init


def _has_gpu() -> bool:
    count = getattr(torch._C, "_cuda_getDeviceCount", None)  # not in builds for CPUs alone
    return count is not None and count() > 0
