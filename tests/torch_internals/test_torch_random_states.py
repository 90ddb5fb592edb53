"""backend/python/torch_lazuli/torch_internals/random_states.py"""

import inspect

import pytest
import torch


def test_a_type_may_be_named(device):
    torch.ones(1, device=device)  # torch's functions are replaced at the first use
    original = torch.random.fork_rng.__wrapped__
    assert {"devices", "device_type"} < set(inspect.signature(original).parameters), (
        "torch.random.fork_rng must take `devices` and `device_type`, by these names"
    )


@pytest.mark.parametrize("named", [{}, {"device_type": "lazuli"}])
def test_the_states_of_devices_are_put_back(device, named):
    torch.manual_seed(3)
    before = torch.rand(4, device=device).cpu(), torch.rand(4)
    torch.manual_seed(3)
    with torch.random.fork_rng((torch.device(device, i) for i in (0,)), **named):
        torch.rand(7, device=device).sum().item()
    assert torch.equal(torch.rand(4, device=device).cpu(), before[0])
    assert torch.equal(torch.rand(4), before[1])
