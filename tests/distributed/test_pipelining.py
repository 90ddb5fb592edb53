"""torch.distributed.pipelining: two stages of a model in two processes."""

import pytest
import torch
import torch.distributed as dist
from differential import normal
from torch import nn
from torch.distributed import pipelining

MICROBATCHES = 4
SCHEDULES = ["ScheduleGPipe", "Schedule1F1B"]


def layers(device):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.LayerNorm(6)).to(device) for _ in range(2)]


def train(rank, device, stage, schedule):
    pipe = getattr(pipelining, schedule)(
        stage, n_microbatches=MICROBATCHES, loss_fn=nn.functional.mse_loss
    )
    torch.manual_seed(1)
    x, y = normal(8, 6, device=device), normal(8, 6, device=device)
    losses = []
    if rank == 0:
        pipe.step(x)
    else:
        result = pipe.step(target=y, losses=losses)
        losses = [*losses, result]
    gradients = [p.grad for p in stage.submod.parameters()]
    dist.barrier()
    return [loss.detach() for loss in losses], gradients


def by_hand(rank, device, schedule):
    place = torch.device(device)
    stage = pipelining.PipelineStage(layers(device)[rank], rank, 2, place)
    return train(rank, device, stage, schedule)


def split(rank, device, schedule):
    whole = nn.Sequential(*layers(device))
    pipe = pipelining.pipeline(
        whole,
        mb_args=(normal(8 // MICROBATCHES, 6, device=device),),
        split_spec={"1": pipelining.SplitPoint.BEGINNING},
    )
    return train(rank, device, pipe.build_stage(rank, torch.device(device)), schedule)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make_stage", [by_hand, split])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(run_both, make_stage, schedule):
    run_both(make_stage, schedule, rtol=1e-4, atol=1e-5)
