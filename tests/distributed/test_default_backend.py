"""Groups that are started without the name of a backend, and RPC."""

import pytest
import torch


def test_without_a_name_the_cpu_is_served_too(device):
    backend = torch.distributed.Backend("undefined")
    config = torch.distributed.distributed_c10d.BackendConfig(backend)
    assert config.get_device_backend_map() == {"lazuli": "gloo", "cpu": "gloo"}


def test_a_named_backend_serves_what_it_did(device):
    config = torch.distributed.distributed_c10d.BackendConfig(torch.distributed.Backend("cpu:gloo"))
    assert config.get_device_backend_map() == {"cpu": "gloo"}


def alone(rank, port, device):
    import torch.distributed as dist

    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group(init_method=address, rank=rank, world_size=2)
    x = torch.ones(2, device=device) * (rank + 1)
    dist.all_reduce(x)
    assert x.tolist() == [3, 3]
    dist.destroy_process_group()


@pytest.mark.parametrize("where", ["cpu", "lazuli"])
def test_two_processes_without_a_name(where):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(alone, (port, where), nprocs=2)


def test_rpc_says_what_it_cannot_map(device):
    import torch.distributed.rpc as rpc

    torch.empty(0, device=device)  # the first use of the device puts this in place
    with pytest.raises(NotImplementedError, match=r"send `x.cpu\(\)`"):
        rpc.TensorPipeRpcBackendOptions(device_maps={"other": {"lazuli:0": "lazuli:0"}})
