"""backend/python/torch_lazuli/torch_internals/exchange.py"""

import inspect

import numpy
import torch
from torch.utils import dlpack


def test_exchange_is_by_methods_of_tensors(spy):
    asked = spy(torch.Tensor, "__dlpack__"), spy(torch.Tensor, "__dlpack_device__")
    numpy.from_dlpack(torch.ones(2))
    torch.from_dlpack(torch.ones(2))
    assert all(asked), "who takes a tensor must ask its __dlpack__ and __dlpack_device__"


def test_the_device_is_named_by_an_enumeration():
    assert torch.ones(1).__dlpack_device__() == (dlpack.DLDeviceType.kDLCPU, 0)


def test_one_function_takes_tensors_in(device):
    assert torch.from_dlpack is dlpack.from_dlpack
    original = inspect.unwrap(torch.from_dlpack)
    parameters = inspect.signature(original).parameters
    assert list(parameters) == ["ext_tensor", "device", "copy"]
    assert parameters["device"].default is parameters["copy"].default is None
