"""The state of torch's CUDA generator, which a call of ours may borrow on another thread."""

import functools

import torch


def read_the_state_between_calls() -> None:
    """Lets `torch.cuda.get_rng_state` wait for a call that drops weights; `fork_rng` asks it."""
    original = torch.cuda.get_rng_state

    @functools.wraps(original)
    def get_rng_state(device="cuda"):
        backing = torch.ops.lazuli._backing()
        if backing.type == "cuda":
            index = torch.cuda._utils._get_device_index(device, optional=True)
            if index == (backing.index or 0):
                return torch.ops.lazuli._gpu_generator_state()
        return original(device)

    torch.cuda.get_rng_state = torch.cuda.random.get_rng_state = get_rng_state
