"""Collectives of torch.distributed on tensors of the device, over gloo."""

import pytest
import torch
import torch.distributed as dist
from differential import normal


def numbers(rank, device, *shape):
    return torch.arange(6.0).view(shape or (2, 3)).to(device) + 10 * rank


def all_reduce(rank, device):
    x = numbers(rank, device) * 2
    view = x[0]
    dist.all_reduce(x)
    y = numbers(rank, device)
    dist.all_reduce(y, dist.ReduceOp.MAX)
    return x, view, y, x * y


def broadcast(rank, device):
    x = numbers(rank, device) + 1
    before = x.clone()
    dist.broadcast(x, 1)
    return x, before


def all_gather(rank, device):
    x = numbers(rank, device)
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x.sin())
    flat = torch.zeros(4, 3, device=device)
    dist.all_gather_into_tensor(flat, x)
    inside = torch.zeros(4, 3, device=device)
    inside[2 * rank : 2 * rank + 2] = x
    dist.all_gather_into_tensor(inside, inside[2 * rank : 2 * rank + 2])
    windows = list(torch.zeros(2, 2, 3, device=device).unbind())
    dist.all_gather(windows, x)
    return parts, flat, inside, windows


def reduce_scatter(rank, device):
    x = numbers(rank, device)
    out = torch.empty(3, device=device)
    dist.reduce_scatter_tensor(out, x.view(-1))
    listed = torch.empty(3, device=device)
    dist.reduce_scatter(listed, list(x.unbind()))
    return out, listed


def to_one(rank, device):
    x = numbers(rank, device)
    y = x.clone()
    dist.reduce(y, 0)
    parts = [torch.empty_like(x) for _ in range(2)] if rank == 0 else None
    dist.gather(x, parts, 0)
    part = torch.empty(3, device=device)
    dist.scatter(part, list(x.unbind()) if rank == 1 else None, 1)
    return (y, parts, part) if rank == 0 else (parts, part)


def all_to_all(rank, device):
    x = numbers(rank, device)
    out = torch.empty(6, device=device)
    dist.all_to_all_single(out, x.view(-1))
    return out


def send_and_receive(rank, device):
    x = numbers(rank, device)
    y = torch.zeros_like(x)
    if rank == 0:
        dist.send(x * 3, 1)
        source = dist.recv(y)
    else:
        dist.recv(y, 0)
        dist.send(y + 1, 0)
        source = None
    received = torch.empty_like(x)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, y, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
    )
    for work in works:
        work.wait()
    return y, source, received


def objects(rank, device):
    everyone = [None, None]
    dist.all_gather_object(everyone, {"rank": rank, "tensor": numbers(rank, device).tolist()})
    one = [rank, "text"]
    dist.broadcast_object_list(one, 1)
    dist.barrier()
    return everyone, one


def types(rank, device):
    out = []
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8):
        x = (torch.arange(4).to(dtype) + rank).to(device)
        dist.all_reduce(x)
        out.append(x)
    c = torch.complex(numbers(rank, device), numbers(rank, device))
    dist.all_reduce(c)
    return out, c.real, c.imag


def asynchronous(rank, device):
    x, y = numbers(rank, device), numbers(rank, device) + 1
    works = [dist.all_reduce(t, async_op=True) for t in (x, y)]
    z = numbers(rank, device).exp()  # meanwhile
    for work in works:
        work.wait()
    again = dist.all_reduce(x, async_op=True)
    (same,) = again.get_future().wait()
    doubled = dist.all_reduce(y, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    return x, same is not None and same.data_ptr() == x.data_ptr(), doubled.wait(), z


def one_after_the_other(rank, device):
    """A copy that is made while a collective writes sees what it wrote, once it is waited for."""
    x = numbers(rank, device)
    for _ in range(3):
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        copy = x.clone()
        x += 1
    return x, copy


def gradients(rank, device):
    from torch.distributed.nn.functional import all_reduce

    x = normal(3, device=device, grad=True)
    y = all_reduce(x * (rank + 1)).sin()
    y.sum().backward()
    return y, x.grad


def functional(rank, device):
    from torch.distributed import _functional_collectives as f

    x = numbers(rank, device)
    group = dist.group.WORLD
    return f.all_reduce(x, "sum", group) * 2, f.all_gather_tensor(x, 0, group)


def coalesced(rank, device):
    xs = [numbers(rank, device), numbers(rank, device) * 2]
    dist.all_reduce_coalesced(xs)
    return xs


def groups(rank, device):
    mine = dist.new_group([0, 1], backend="gloo")
    alone = dist.new_group([rank], use_local_synchronization=True)
    x, y = numbers(rank, device), numbers(rank, device)
    dist.all_reduce(x, group=mine)
    dist.all_reduce(y, group=alone)
    return x, y


def for_the_device_alone(rank, device):
    group = dist.new_group([0, 1], backend=f"{device}:gloo")
    x = numbers(rank, device)
    dist.all_reduce(x, group=group)
    return x


def mesh(rank, device):
    from torch.distributed.device_mesh import init_device_mesh

    x = numbers(rank, device)
    dist.all_reduce(x, group=init_device_mesh(device, (2,)).get_group())
    return x


CASES = (
    all_reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    to_one,
    all_to_all,
    send_and_receive,
    objects,
    types,
    asynchronous,
    one_after_the_other,
    gradients,
    functional,
    coalesced,
    groups,
    for_the_device_alone,
    mesh,
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_same_as_on_the_cpu(assert_same, case):
    assert_same(case)


def strided(rank, device):
    x = numbers(rank, device).t()
    try:
        dist.all_reduce(x)
    except (RuntimeError, ValueError) as e:
        return type(e).__name__, str(e)
    return x


def test_layouts_that_are_not_contiguous(assert_same):
    assert_same(strided)


def failing(rank, device):
    x = normal(3, device=device)[torch.tensor([rank * 5], device=device)]
    try:
        dist.all_reduce(x)
        message = ""
    except (IndexError, RuntimeError) as e:
        message = str(e)
        dist.all_reduce(torch.zeros(1, device=device))
    return message


def test_what_failed_is_not_sent(run):
    first, second = run(failing, "lazuli")
    assert first == ""
    assert "out of bounds" in second or "out of range" in second


def default_backend(rank):
    return dist.get_default_backend_for_device("lazuli"), dist.get_backend_config()


def test_backends_of_the_device(run):
    for default, config in run(default_backend):
        assert default == "gloo"
        assert "lazuli:gloo" in config
