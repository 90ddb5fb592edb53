"""DistributedDataParallel on the device: buckets, communication hooks, changing graphs."""

import pytest
import torch
import torch.distributed as dist
from differential import normal
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

SMALL = {"bucket_cap_mb": 0.0002}  # each layer's gradients need a bucket of their own


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
        self.norm = nn.LayerNorm(6)
        self.out = nn.Linear(6, 3)

    def forward(self, x, skip=()):
        for i, layer in enumerate(self.layers):
            if i not in skip:
                x = x + torch.tanh(layer(x))
        return self.out(self.norm(x))


def wrap(device, **options):
    torch.manual_seed(1)
    return DistributedDataParallel(Net().to(device), **SMALL | options)


def batch(rank, device, step=0):
    torch.manual_seed(10 * step + rank)
    return normal(4, 6, device=device)


def gradients(net):
    return [p.grad for p in net.parameters()]


def train(rank, device, net, steps=4, **forward):
    """Enough steps that buckets have been rebuilt in the order in which gradients come."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = net(batch(rank, device, step), **forward).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, gradients(net), list(net.parameters())


def one_bucket(rank, device):
    return train(rank, device, wrap(device, bucket_cap_mb=25))


def many_buckets(rank, device):
    return train(rank, device, wrap(device))


def gradients_in_buckets(rank, device):
    net = wrap(device, gradient_as_bucket_view=True)
    result = train(rank, device, net)
    in_bucket = {p.grad.untyped_storage().data_ptr() for p in net.parameters()}
    return result, len(in_bucket)


def gradients_in_buckets_accumulate(rank, device):
    net = wrap(device, gradient_as_bucket_view=True)
    for step in range(3):
        net(batch(rank, device, step)).pow(2).mean().backward()
    return gradients(net)


def without_synchronization(rank, device):
    net, seen = wrap(device), []
    for step in range(2):
        with net.no_sync():
            net(batch(rank, device, step)).pow(2).mean().backward()
            seen.append([g.clone() for g in gradients(net)])
        net(batch(rank, device, step + 5)).pow(2).mean().backward()
    return seen, gradients(net)


def unused_parameters(rank, device):
    net = wrap(device, find_unused_parameters=True)
    results = [train(rank, device, net, skip=(rank,))]
    net.zero_grad()
    net(batch(rank, device), skip=(2,)).sum().backward()
    return results, [g is None for g in gradients(net)]


def static_graph(rank, device):
    return train(rank, device, wrap(device, static_graph=True), skip=(1,))


def static_graph_with_checkpoints(rank, device):
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(1)
    inner = Net().to(device)

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    return train(rank, device, DistributedDataParallel(Checkpointed(), **SMALL, static_graph=True))


def python_hook(rank, device):
    net, sizes = wrap(device), []

    def halve(state, bucket):
        sizes.append(bucket.buffer().numel())
        work = dist.all_reduce(bucket.buffer().div_(state), async_op=True)
        return work.get_future().then(lambda f: f.value()[0] * 0.5)

    net.register_comm_hook(2, halve)
    return train(rank, device, net), sizes


def hook_that_looks_into_buckets(rank, device):
    net, seen = wrap(device), []

    def hook(_, bucket):
        seen.append((bucket.index(), bucket.is_last(), [g.clone() for g in bucket.gradients()]))
        return default_hooks.allreduce_hook(None, bucket)

    net.register_comm_hook(None, hook)
    return train(rank, device, net), seen


def compressed_in_python(rank, device):
    net = wrap(device)
    net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return train(rank, device, net)


def compressed_and_wrapped(rank, device):
    net = wrap(device)
    net.register_comm_hook(None, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook))
    return train(rank, device, net)


def compressed_by_torch(rank, device):
    net = wrap(device)
    net._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    return train(rank, device, net)


def reduced_by_torch(rank, device):
    net = wrap(device)
    net._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    return train(rank, device, net)


def power_sgd(rank, device):
    net = wrap(device, bucket_cap_mb=25)
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.1)
    net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(rank, device, net)[0][:3]


def optimizer_in_backward(rank, device):
    from torch.distributed.optim import _apply_optimizer_in_backward as apply

    torch.manual_seed(1)
    net = Net().to(device)
    apply(torch.optim.SGD, net.parameters(), {"lr": 0.1})
    net = DistributedDataParallel(net, **SMALL)
    for step in range(3):
        net(batch(rank, device, step)).pow(2).mean().backward()
    return list(net.parameters())


def buffers(rank, device):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)).to(device)
    net = DistributedDataParallel(net, **SMALL)
    return train(rank, device, net), list(net.buffers())


def uneven_inputs(rank, device):
    from torch.distributed.algorithms.join import Join

    net = wrap(device)
    with Join([net]):
        for step in range(2 + rank):
            net(batch(rank, device, step)).pow(2).mean().backward()
    return gradients(net)


def on_a_named_device(rank, device):
    index = [torch.device(device)] if device == "lazuli" else None
    return train(rank, device, wrap(device, device_ids=index, output_device=index and index[0]))


def under_autocast(rank, device):
    net, optimizer = wrap(device), None
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            loss = net(batch(rank, device, step)).float().pow(2).mean()
        loss.backward()
        optimizer.step()
    return gradients(net)


def two_losses(rank, device):
    net = wrap(device)
    out = net(batch(rank, device))
    (out.pow(2).mean() + out.sin().sum()).backward()
    return gradients(net)


def state(rank, device):
    net = wrap(device)
    train(rank, device, net)
    twin = wrap(device)
    twin.load_state_dict({k: v.clone() for k, v in net.state_dict().items()})
    return list(twin.state_dict()), list(twin.parameters())


def zero_redundancy(rank, device):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    net = wrap(device)
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        net(batch(rank, device, step)).pow(2).mean().backward()
        optimizer.step()
    return list(net.parameters())


CASES = (
    one_bucket,
    many_buckets,
    gradients_in_buckets,
    gradients_in_buckets_accumulate,
    without_synchronization,
    unused_parameters,
    static_graph,
    static_graph_with_checkpoints,
    python_hook,
    hook_that_looks_into_buckets,
    reduced_by_torch,
    optimizer_in_backward,
    buffers,
    uneven_inputs,
    on_a_named_device,
    two_losses,
    state,
    zero_redundancy,
)
ROUNDED = (  # to half precision, on the way
    compressed_in_python,
    compressed_and_wrapped,
    compressed_by_torch,
    power_sgd,
    under_autocast,
)


@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_same_as_on_the_cpu(assert_same, case):
    assert_same(case, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("case", ROUNDED, ids=lambda f: f.__name__)
def test_nearly_same_as_on_the_cpu(assert_same, case):
    assert_same(case, rtol=2e-2, atol=2e-3)


def gradients_are_averages(rank):
    net = wrap("lazuli")
    net(batch(rank, "lazuli")).pow(2).mean().backward()
    alone = []
    for other in range(2):
        torch.manual_seed(1)
        single = Net().to("lazuli")
        single(batch(other, "lazuli")).pow(2).mean().backward()
        alone.append(gradients(single))
    return gradients(net), [(a + b) / 2 for a, b in zip(*alone, strict=True)]


def test_gradients_are_averages(run):
    for actual, expected in run(gradients_are_averages):
        torch.testing.assert_close(actual, expected)


def failing_hook(rank, device):
    net = wrap(device)

    def hook(state, bucket):
        raise ValueError("no communication today")

    net.register_comm_hook(None, hook)
    try:
        net(batch(rank, device)).sum().backward()
    except (ValueError, RuntimeError) as e:
        return str(e).splitlines()[0]
    return "nothing"


def test_a_hook_that_fails(assert_same):
    assert_same(failing_hook)


def repeated_traces(rank):
    net = wrap("lazuli")
    train(rank, "lazuli", net, steps=6)
    torch.lazuli.synchronize()
    torch.lazuli.reset_metrics()
    train(rank, "lazuli", net, steps=4)
    torch.lazuli.synchronize()
    return torch.lazuli.metrics()


def test_steps_repeat_their_traces(run):
    for metrics in run(repeated_traces):
        assert metrics["traces_reused"] > 3 * metrics["traces_compiled"]
        assert metrics["syncs"]["collective"] > 0
