"""`torch.cuda.FloatTensor` and the like: as types, and to make tensors."""

from typing import Any

import torch

from torch_lazuli.devices import TYPE
from torch_lazuli.takeover.policy import OWN

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}
_device_of = torch._C.TensorBase.device.__get__


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        ours = isinstance(instance, torch.Tensor) and _device_of(instance).type == TYPE
        return ours and instance.dtype == cls.dtype


def tensor_types() -> dict[str, Any]:
    """The classes by their names in torch.cuda."""
    return {name: _class(name, dtype) for name, dtype in _DTYPES.items()}


def _class(name: str, of: torch.dtype) -> type:
    def new(cls, *arguments):
        is_size = all(isinstance(a, int) for a in arguments) or isinstance(arguments[0], torch.Size)
        if is_size:
            return torch.empty(*arguments, dtype=of, device=OWN)
        return torch.as_tensor(arguments[0], dtype=of, device=OWN)

    namespace = {"__new__": new, "dtype": of, "is_cuda": True, "__module__": "torch.cuda"}
    kind = _Kind(f"torch.cuda.{name}", (), namespace)
    kind.__doc__ = f"Tensors of {of} on the device."
    return kind
