"""Results whose memory order eager chooses in ways of its own, where later views depend on it."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("factor", [1, 2])
def test_shuffled_pixels(channels, factor, device):
    x = torch.randn(2, channels * factor**2, 4, 6).to(memory_format=torch.channels_last)

    def run(device):
        y = F.pixel_shuffle(x.to(device), factor)
        z = F.pixel_unshuffle(y, factor)
        return (
            torch.tensor([*y.stride(), *z.stride()]),
            y,
            z,
            y.permute(0, 2, 3, 1).view(-1, channels),
        )

    assert_same(run)


def test_shuffling_by_one_copies(device):
    x = torch.zeros(1, 2, 3, 3, device=device)
    F.pixel_shuffle(x, 1).add_(1)
    F.pixel_unshuffle(x, 1).add_(1)
    assert x.sum() == 0


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (2, 1)])
def test_unfolded_images_are_row_major(kernel, stride, device):
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)

    def run(device):
        y = F.unfold(x.to(device), kernel, stride=stride)
        return torch.tensor(y.stride()), y.view(2, -1)

    assert_same(run)


def test_is_set_to(device):
    def run(device):
        x = torch.ones(4, device=device)
        others = [x, x.view(4), x.detach(), x[1:], x.view(2, 2), x.clone()]
        return torch.tensor([x.is_set_to(other) for other in others])

    assert_same(run)


@pytest.mark.parametrize("sizes", [(1, 4, 4, 2), (2, 4, 4, 1), (1, 4, 4, 1), (2, 4, 4, 3)])
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_picked_elements(sizes, order, device):
    x = torch.randn([sizes[d] for d in order]).permute(*(order.index(d) for d in range(4)))
    i, j = torch.tensor([0, 3, 1]), torch.tensor([[2], [1]])

    def run(device):
        y, a, b = x.to(device), i.to(device), j.to(device)
        picked = [y[:, a, a], y[:, a, b], y[:, :, a], y[:, a], y[:, b.t()], y[:, a, :, :1]]
        return torch.tensor([s for p in picked for s in p.stride()]), *picked

    assert_same(run)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float32])
def test_images_that_are_joined_padded_and_rolled(dtype, device):
    x = torch.randn(2, 3, 2, 2, dtype=dtype).to(memory_format=torch.channels_last)

    def run(device):
        a, b = x.to(device), x.contiguous().to(device)
        made = [torch.cat([a, a], 1), torch.cat([a, b]), torch.stack([a, a], 1), a.roll(1, 1)]
        made.append(F.pad(a, (1, 1)))
        return torch.tensor([s for y in made for s in y.stride()]), *made

    assert_same(run)


def test_what_a_concatenation_skips_has_no_derivative(device):
    def run(device):
        empty = [torch.ones(0, device=device, requires_grad=True) for _ in range(2)]
        y = torch.cat(empty)
        gy = torch.ones_like(y).requires_grad_()
        return [g.requires_grad for g in torch.autograd.grad(y, empty, gy, create_graph=True)]

    assert run(device) == run("cpu") == [False, False]
