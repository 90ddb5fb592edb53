"""Parameters and optimizers shared out over two processes, in every precision and place."""

import itertools

import pytest
import torch
import torch.distributed as dist
from differential import normal
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

STEPS = 10
PRECISIONS = {
    "float32": {},
    "bfloat16": {"param_dtype": torch.bfloat16},
    "bfloat16 reduced in float32": {
        "param_dtype": torch.bfloat16,
        "reduce_dtype": torch.float32,
    },
    "reduced in bfloat16": {"reduce_dtype": torch.bfloat16},
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(6, 16)
        self.down = nn.Linear(16, 6)
        self.norm = nn.LayerNorm(6)
        self.out = nn.Linear(6, 4)

    def forward(self, x):
        x = x + self.down(torch.tanh(self.up(x)))
        return self.out(self.norm(x))


def make_net(device):
    torch.manual_seed(1)
    return Net().to(device)


def batch(rank, device, step):
    torch.manual_seed(10 * step + rank)
    return normal(4, 6, device=device)


def whole(p):
    return p.full_tensor() if isinstance(p, DTensor) else p


def train(rank, device, net, optimizer=None):
    optimizer = optimizer or torch.optim.AdamW(net.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = net(batch(rank, device, step)).float().pow(2).mean()
        loss.backward()
        assert any(p.grad is not None for p in net.parameters())
        optimizer.step()
        losses.append(loss.detach())
    return losses


def fsdp1(rank, device, precision, offload, strategy, original):
    offload = offload and device != "cpu"  # torch's streams of the CPU cannot wait, as that needs
    net = FullyShardedDataParallel(
        make_net("cpu" if offload else device),
        device_id=torch.device(device, 0) if device != "cpu" else torch.device("cpu"),
        mixed_precision=MixedPrecision(**PRECISIONS[precision]) if PRECISIONS[precision] else None,
        cpu_offload=CPUOffload(offload_params=offload),
        sharding_strategy=strategy,
        use_orig_params=original,
    )
    losses = train(rank, device, net)
    with FullyShardedDataParallel.summon_full_params(net):
        return losses, [p.detach().clone() for p in net.parameters()]


def fsdp2(rank, device, precision, offload):
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    net = make_net(device)
    options = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(**PRECISIONS[precision])}
    if offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    for layer in (net.up, net.down):
        fully_shard(layer, **options)
    fully_shard(net, **options)
    losses = train(rank, device, net)
    shards = [p.to_local() for p in net.parameters()]
    return losses, [s.detach().clone() for s in shards]


def zero(rank, device):
    net = DistributedDataParallel(make_net(device))
    optimizer = ZeroRedundancyOptimizer(
        net.parameters(), torch.optim.AdamW, lr=0.05, parameters_as_bucket_view=True
    )
    return train(rank, device, net, optimizer), list(net.parameters())


def ddp_of_bfloat16(rank, device):
    net = DistributedDataParallel(make_net(device).bfloat16())
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = net(batch(rank, device, step).bfloat16()).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def tensor_parallel(rank, device):
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    net = parallelize_module(make_net(device), mesh, plan)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05, foreach=False)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = net(batch(0, device, step)).pow(2).mean()  # the same batch everywhere
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [whole(p).detach().clone() for p in net.parameters()]


STRATEGIES = (
    ShardingStrategy.FULL_SHARD,
    ShardingStrategy.SHARD_GRAD_OP,
    ShardingStrategy.NO_SHARD,
)
# Ten steps of AdamW: where a gradient is near zero, its sign decides a step of the learning rate.
CLOSE = {"rtol": 1e-3, "atol": 1e-3}
CLOSE_NARROW = {"rtol": 0.1, "atol": 0.1}


def tolerance(precision):
    return CLOSE if precision == "float32" else CLOSE_NARROW


@pytest.mark.filterwarnings("ignore")
class TestFullyShardedDataParallel:
    @pytest.mark.parametrize("precision", PRECISIONS)
    @pytest.mark.parametrize("offload", [False, True], ids=["", "offloaded"])
    @pytest.mark.parametrize("original", [False, True], ids=["flat", "original"])
    def test_precisions_and_places(self, run_both, precision, offload, original):
        arguments = (precision, offload, ShardingStrategy.FULL_SHARD, original)
        run_both(fsdp1, *arguments, **tolerance(precision))

    @pytest.mark.parametrize(
        ("strategy", "original"), list(itertools.product(STRATEGIES[1:], [False, True])), ids=str
    )
    def test_strategies(self, run_both, strategy, original):
        run_both(fsdp1, "float32", False, strategy, original, **CLOSE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("offload", [False, True], ids=["", "offloaded"])
def test_fully_shard(run_both, precision, offload):
    run_both(fsdp2, precision, offload, **tolerance(precision))


def test_zero_redundancy_optimizer(run_both):
    run_both(zero, **CLOSE)


def test_ddp_of_bfloat16(run_both):
    run_both(ddp_of_bfloat16, **CLOSE_NARROW)


def test_tensor_parallel(run_both):
    run_both(tensor_parallel, **CLOSE)
