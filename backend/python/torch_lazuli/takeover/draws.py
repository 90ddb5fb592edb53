"""Random numbers of programs that name no device: drawn on the host, so that they are eager's.

This goes for first values of parameters, data and samples. Dropout draws on the device.
"""

import functools
from collections.abc import Callable

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.takeover.policy import OWN, state

IN_PLACE = (
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_",
    "uniform_",
)  # fmt: skip
FUNCTIONS = (
    "bernoulli", "binomial", "multinomial", "normal", "poisson", "_sample_dirichlet",
    "_standard_gamma",
)  # fmt: skip
LIKE = ("rand_like", "randn_like", "randint_like")

_device_of = torch._C.TensorBase.device.__get__
_to_host = torch._C.TensorBase.cpu


def install() -> None:
    """Puts the functions in place, after those of factories.py."""
    for name in IN_PLACE:
        setattr(torch.Tensor, name, _in_place(getattr(torch.Tensor, name)))
    for name in FUNCTIONS:
        setattr(torch, name, _on_host(getattr(torch, name)))
    for name in ("bernoulli", "multinomial"):
        setattr(torch.Tensor, name, _on_host(getattr(torch.Tensor, name)))
    for name in LIKE:
        setattr(torch, name, _like(getattr(torch, name)))


def _is_ours(value) -> bool:
    return isinstance(value, torch.Tensor) and _device_of(value).type == TYPE


def _host(value):
    return _to_host(value) if _is_ours(value) else value


def _is_for_device(generator) -> bool:
    """Whether the program draws with the device's own random state."""
    return generator is not None and generator.device.type == TYPE


def _in_place(original: Callable) -> Callable:
    @functools.wraps(original)
    def draw(self, *args, **kwargs):
        if not state.cpu or not _is_ours(self) or _is_for_device(kwargs.get("generator")):
            return original(self, *args, **kwargs)
        if torch.is_grad_enabled() and self.requires_grad:
            # Autograd sees the operator itself; its numbers come after it.
            original(self, *args, **{k: v for k, v in kwargs.items() if k != "generator"})
        with torch.no_grad():
            host = torch._C._VariableFunctions.empty_like(self, device="cpu")
            values = {name: _host(value) for name, value in kwargs.items()}
            original(host, *map(_host, args), **values)
            self.copy_(host)
        return self

    return draw


def _on_host(original: Callable) -> Callable:
    @functools.wraps(original)
    def draw(*args, **kwargs):
        ours = any(map(_is_ours, args)) or any(map(_is_ours, kwargs.values()))
        ours = ours and not _is_for_device(kwargs.get("generator"))
        if not state.cpu or not ours or "out" in kwargs:
            return original(*args, **kwargs)
        values = {name: _host(value) for name, value in kwargs.items()}
        return original(*map(_host, args), **values).to(OWN)

    return draw


def _like(original: Callable) -> Callable:
    @functools.wraps(original)
    def draw(like, *args, **kwargs):
        is_left = not _is_ours(like) or _is_for_device(kwargs.get("generator"))
        if not state.cpu or is_left or kwargs.get("device") is not None:
            return original(like, *args, **kwargs)
        requires_grad = kwargs.pop("requires_grad", False)
        host = torch._C._VariableFunctions.empty_like(like.detach(), device="cpu")
        return original(host, *args, **kwargs).to(OWN).requires_grad_(requires_grad)

    return draw
