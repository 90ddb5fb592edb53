"""backend/python/torch_lazuli/torch_internals/default_device.py"""

import torch
from torch.utils.data import DataLoader, random_split
from torch.utils.data._utils import pin_memory as pinning


def test_containers_are_pinned_by_the_function_of_the_module():
    asked = []
    original = pinning.pin_memory
    pinning.pin_memory = lambda data, device=None: asked.append(data) or data
    try:
        pinning.__dict__["pin_memory"]([1, 2])
        getattr(original, "__wrapped__", original)({"a": [3]})
    finally:
        pinning.pin_memory = original
    assert [1, 2] in asked
    assert [3] in asked, "pin_memory must call itself by its name in the module"


def numbers_of(make, device):
    torch.manual_seed(3)
    torch.set_default_device(device)
    try:
        return make()
    finally:
        torch.set_default_device(None)


def test_samplers_draw_the_numbers_that_they_draw_on_the_cpu(device):
    def shuffled():
        draw = torch.Generator().manual_seed(5)
        loader = DataLoader(range(20), batch_size=4, shuffle=True, generator=draw)
        parts = random_split(range(20), [5, 15], generator=torch.Generator().manual_seed(1))
        return [batch.tolist() for batch in loader], [list(part) for part in parts]

    assert numbers_of(shuffled, device) == numbers_of(shuffled, "cpu")


def test_batches_on_the_device_need_no_pinning(device):
    def batches():
        loader = DataLoader([{"x": [1.0, 2.0]}, {"x": [3.0, 4.0]}], batch_size=2, pin_memory=True)
        return [batch["x"][0] for batch in loader]

    (batch,) = numbers_of(batches, device)
    assert batch.device.type == device
    assert batch.tolist() == [1.0, 3.0]


def test_a_generator_of_the_device_stays_there(device):
    def permutation():
        return torch.randperm(4, generator=torch.Generator(device))

    assert numbers_of(permutation, device).device.type == device


def test_programs_draw_on_the_default_device_with_a_generator_of_the_cpu(device):
    def drawn():
        draw = torch.Generator().manual_seed(5)
        drawn = [torch.randn(3, generator=draw), torch.randperm(6, generator=draw)]
        return [*drawn, torch.empty(4).uniform_(generator=draw)]

    ours = numbers_of(drawn, device)
    assert [x.device.type for x in ours] == [device] * 3
    assert [x.tolist() for x in ours] == [x.tolist() for x in numbers_of(drawn, "cpu")]
