"""backend/python/torch_lazuli/torch_internals/distributed.py"""

import inspect

import pytest
import torch

if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

from torch.distributed import distributed_c10d
from torch.distributed.distributed_c10d import Backend, BackendConfig


def test_tables_say_which_backend_serves_a_device(device):
    assert BackendConfig(Backend("gloo")).get_device_backend_map()[device] == "gloo", (
        "init_process_group must ask Backend.backend_capability what devices a backend serves"
    )
    assert Backend.default_device_backend_map[device] == "gloo", (
        "torch must have a table of the backend that each device gets when none is named"
    )


def test_a_group_without_a_named_backend_asks_one_class():
    config = BackendConfig(Backend(Backend.UNDEFINED))
    assert isinstance(config.device_backend_map, dict)
    assert "BackendConfig(" in inspect.getsource(distributed_c10d._new_process_group_helper), (
        "init_process_group must make a BackendConfig, by that name in its module"
    )
    assert config.device_backend_map.get("cpu") == "gloo", "lazuli adds the CPU's"
