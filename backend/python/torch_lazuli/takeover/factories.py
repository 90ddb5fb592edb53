"""Functions that make tensors: a device that they are given, and the one that they take by default.

They are replaced at their names in `torch`; a name that a program imported before is not.
"""

import functools
from collections.abc import Callable

import torch
from torch.utils import _device

from torch_lazuli.takeover.policy import CPU, OWN, default_is_ours, mapped, module_of, state

# All that torch's own default device goes for.
NAMES = (
    "arange", "bartlett_window", "blackman_window", "empty", "empty_permuted", "empty_quantized",
    "empty_strided", "eye", "full", "hamming_window", "hann_window", "kaiser_window", "linspace",
    "logspace", "ones", "range", "scalar_tensor", "sparse_bsc_tensor", "sparse_bsr_tensor",
    "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
    "tensor", "tril_indices", "triu_indices", "zeros",
)  # fmt: skip
FREQUENCIES = ("fftfreq", "rfftfreq")
# Those draw on the host where no device is named, so that the numbers are eager's.
RANDOM = ("rand", "randn", "randint", "randperm")
# Torch's own Python that draws samples where the parameters are.
SAMPLE_FOR_TENSORS = ("torch.distributions.", "torch._lowrank")
# Without a device they take that of an operand.
LIKE = (
    "empty_like", "full_like", "ones_like", "zeros_like", "rand_like", "randn_like", "randint_like",
)  # fmt: skip
NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros", "new")
# They may share the memory of what they are given.
SHARING = ("as_tensor", "asarray")


def install() -> None:
    """Puts the functions in place."""
    _device._device_constructors()  # torch's own list keeps what it replaces by name
    for name in NAMES:
        setattr(torch, name, _factory(getattr(torch, name)))
    for name in FREQUENCIES:
        setattr(torch.fft, name, _factory(getattr(torch.fft, name)))
    for name in RANDOM:
        setattr(torch, name, _random_factory(getattr(torch, name)))
    for name in (*LIKE, *SHARING):
        setattr(torch, name, _named_only(getattr(torch, name)))
    for name in NEW:
        setattr(torch.Tensor, name, _named_only(getattr(torch.Tensor, name)))
    nested = torch.nested
    nested.nested_tensor = _nested(nested.nested_tensor)
    nested.as_nested_tensor = _named_only(nested.as_nested_tensor, position=2)
    _map_default_device()


def _factory(original: Callable) -> Callable:
    @functools.wraps(original)
    def factory(*args, **kwargs):
        if not kwargs:  # mostly so
            return original(*args, device=OWN) if default_is_ours() else original(*args)
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = mapped(device)
        elif default_is_ours() and "out" not in kwargs and not kwargs.get("pin_memory"):
            kwargs["device"] = OWN
        return original(*args, **kwargs)

    return factory


def _random_factory(original: Callable) -> Callable:
    @functools.wraps(original)
    def factory(*args, **kwargs):
        device = kwargs.get("device")
        here = kwargs.get("out") is None and not kwargs.get("pin_memory")
        if device is not None:
            kwargs["device"] = own = mapped(device)
            is_host = own is OWN is not device and torch.device(device).type == "cpu"
            here = here and (is_host or (own == OWN and _is_sampled_for_host()))
        else:
            here = here and default_is_ours()
        if not here:
            return original(*args, **kwargs)
        kwargs["device"] = None
        requires_grad = kwargs.pop("requires_grad", False)
        return original(*args, **kwargs).to(OWN).requires_grad_(requires_grad)

    return factory


def _is_sampled_for_host() -> bool:
    """Whether torch's own Python draws a sample, for which it names the device of a tensor, and the
    program takes that for the CPU."""
    return state.cpu and state.shown is CPU and module_of(2).startswith(SAMPLE_FOR_TENSORS)


def _named_only(original: Callable, position: int | None = None) -> Callable:
    """Maps a device that is named, by word or as the argument at `position`."""

    @functools.wraps(original)
    def make(*args, **kwargs):
        if kwargs and (device := kwargs.get("device")) is not None:
            kwargs["device"] = mapped(device)
        return original(*args, **kwargs)

    @functools.wraps(original)
    def make_at(*args, **kwargs):
        if (device := kwargs.get("device")) is not None:
            kwargs["device"] = mapped(device)
        elif len(args) > position:
            args = (*args[:position], mapped(args[position]), *args[position + 1 :])
        return original(*args, **kwargs)

    return make if position is None else make_at


def _nested(original: Callable) -> Callable:
    """Without a device, that of the first tensor of its list; lists of numbers have none."""

    @functools.wraps(original)
    def make(tensor_list, **kwargs):
        if (device := kwargs.get("device")) is not None:
            kwargs["device"] = mapped(device)
        elif default_is_ours() and not any(isinstance(t, torch.Tensor) for t in tensor_list):
            kwargs["device"] = OWN
        return original(tensor_list, **kwargs)

    return make


def _map_default_device() -> None:
    """`torch.set_default_device("cuda")` and `with torch.device("cuda")`: this calls from C."""
    original = _device.DeviceContext.__init__

    @functools.wraps(original)
    def init(self, device) -> None:
        depth = 2 if module_of(1) == "torch" else 1
        original(self, mapped(torch.device(device), depth))

    _device.DeviceContext.__init__ = init
