"""Checkpoints of what is shared out over two processes: torch.distributed.checkpoint."""

import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from differential import normal
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.filterwarnings("ignore")


def folder() -> str:
    """One folder that both processes know."""
    name = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(name)
    return name[0]


def net(device, seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 4)).to(device)


def plain(device, seed=1):
    return net(device, seed)


def replicated(device, seed=1):
    return DistributedDataParallel(net(device, seed))


def sharded(device, seed=1):
    module = net(device, seed)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    fully_shard(module[0], mesh=mesh)
    return fully_shard(module, mesh=mesh)


def flat(device, seed=1):
    return FullyShardedDataParallel(
        net(device, seed), device_id=torch.device(device), use_orig_params=True
    )


KINDS = {kind.__name__: kind for kind in (plain, replicated, sharded, flat)}


def train(module, optimizer, rank, device, steps):
    losses = []
    for step in range(steps):
        torch.manual_seed(10 * step + rank)
        loss = module(normal(5, 6, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def whole(value):
    if isinstance(value, DTensor):
        return value.full_tensor()
    if isinstance(value, dict):
        return {key: whole(v) for key, v in value.items()}
    return value


def saved_and_loaded(rank, device, kind):
    """Trains, saves, loads into another module, and goes on there."""
    module = KINDS[kind](device)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    losses = train(module, optimizer, rank, device, 3)
    states = dict(zip(("model", "optimizer"), get_state_dict(module, optimizer), strict=True))
    place = folder()
    checkpoint.save(states, checkpoint_id=place)
    other = KINDS[kind](device, seed=2)
    its_optimizer = torch.optim.AdamW(other.parameters(), lr=0.01)
    states = dict(zip(("model", "optimizer"), get_state_dict(other, its_optimizer), strict=True))
    checkpoint.load(states, checkpoint_id=place)
    set_state_dict(
        other,
        its_optimizer,
        model_state_dict=states["model"],
        optim_state_dict=states["optimizer"],
    )
    ours = torch.device(device).type
    assert {t.device.type for t in get_model_state_dict(other).values()} == {ours}
    losses += train(other, its_optimizer, rank, device, 2)
    if kind == "flat":
        return losses  # torch ends the process where FSDP1 on the CPU is asked for a whole state
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return (
        losses,
        get_model_state_dict(other, options=options),
        get_optimizer_state_dict(other, its_optimizer, options=options).get("state", {}),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(run_both, kind):
    run_both(saved_and_loaded, kind, rtol=1e-3, atol=1e-4)


def whole_state_into_shards(rank, device):
    """One process has the state, and the others get their shards of it."""
    source = net("cpu", seed=3).state_dict() if rank == 0 else {}
    module = sharded(device)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(module, source, options=options)
    return whole(get_model_state_dict(module))


def test_whole_state_into_shards(run_both):
    run_both(whole_state_into_shards)


def saved_in_the_background(rank, device):
    module = sharded(device)
    states = {"model": get_model_state_dict(module), "step": 3, "x": normal(3, device=device)}
    place = folder()
    expected = whole(states["model"])
    later = checkpoint.async_save(states, checkpoint_id=place, process_group=dist.new_group())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    later.result()
    loaded = {"model": get_model_state_dict(module), "step": 0, "x": torch.zeros(3).to(device)}
    checkpoint.load(loaded, checkpoint_id=place)
    for name, value in whole(loaded["model"]).items():
        assert torch.equal(value.cpu(), expected[name].cpu()), name
    return loaded["step"], loaded["x"]


def test_saved_in_the_background(run_both):
    run_both(saved_in_the_background)


def read_on_another_device(rank, device):
    """What one device saved, the CPU reads, and torch.save's format of it."""
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    module = sharded(device)
    place = folder()
    checkpoint.save({"model": get_model_state_dict(module)}, checkpoint_id=place)
    host = {"model": net("cpu", seed=2).state_dict()}
    checkpoint.load(host, checkpoint_id=place)
    dist.barrier()
    if rank == 0:
        dcp_to_torch_save(place, place + "/file.pt")
        file = torch.load(place + "/file.pt", weights_only=False)["model"]
        assert {t.device.type for t in file.values()} == {"cpu"}
        assert all(torch.equal(file[k], v) for k, v in host["model"].items())
    dist.barrier()
    return host


def test_read_on_another_device(run_both):
    run_both(read_on_another_device)


def distributed_tensors(rank, device):
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    torch.manual_seed(0)
    a, b = normal(8, 4, device=device), normal(4, 6, device=device)
    rows = distribute_tensor(a, mesh, [Shard(0)])
    everywhere = distribute_tensor(b, mesh, [Replicate()]).requires_grad_()
    product = rows @ everywhere
    assert product.placements == (Shard(0),)
    loss = (product.softmax(-1) * 2).sum()
    loss.backward()
    columns = rows.redistribute(mesh, [Shard(1)])
    summed = (columns @ distribute_tensor(b, mesh, [Shard(0)])).redistribute(mesh, [Replicate()])
    local = DTensor.from_local(a + rank, mesh, [Shard(0)])
    return (
        product.to_local().detach(),
        loss.full_tensor().detach(),
        everywhere.grad.full_tensor(),
        columns.to_local(),
        summed.to_local(),
        local.full_tensor(),
        torch.distributed.tensor.ones(6, device_mesh=mesh, placements=[Shard(0)]).to_local(),
    )


def test_distributed_tensors(run_both):
    run_both(distributed_tensors, rtol=1e-4, atol=1e-5)


def clipped_and_accumulated(rank, device):
    """FSDP2: gradients of two batches, clipped, without communication for the first one."""
    module = sharded(device)
    module.set_requires_gradient_sync(False)
    module(normal(5, 6, device=device)).sum().backward()
    module.set_requires_gradient_sync(True)
    module(normal(5, 6, device=device)).sum().backward()
    norm = nn.utils.clip_grad_norm_(module.parameters(), 0.5)
    return whole(norm), [whole(p.grad) for p in module.parameters()]


def test_clipped_and_accumulated(run_both):
    run_both(clipped_and_accumulated, rtol=1e-3, atol=1e-5)
