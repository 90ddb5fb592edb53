"""Where results lie, and operands that lie otherwise: what random programs found."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, normal


def order_cases(d):
    x = torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).to(d)
    out = torch.ones(2, 10, 5, device=d)
    window = torch.ones(1, 5, 2, device=d).as_strided((2, 2), (1, 2))
    norm = torch.empty(0, device=d)
    F.normalize(x.as_strided((1, 1, 2, 2), (1, 1, 1, 2)), out=norm)
    image = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last).to(d)
    one = torch.ones(1, device=d)
    half = torch.full((5, 5), 0.5, device=d)
    dense = torch.ones(2, 2, 1, 2, device=d).as_strided((2, 2, 1, 2), (4, 1, 1, 2)).abs()
    c = torch.randn(4, 5, dtype=torch.complex64).to(d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # out is resized
        torch.sub(window, torch.ones((), device=d), out=out)
    return {
        "masked_fill": torch.masked_fill(x.mT, x.mT > 0, 1.0),
        "resized out": out,
        "normalize": norm,
        "bce": F.binary_cross_entropy_with_logits(one.expand(5, 5), x.mT.abs(), reduction="none"),
        "probabilities": F.binary_cross_entropy(half.mT, half, reduction="none"),
        "huber": F.huber_loss(half.as_strided((3, 3), (0, 2)).mT, x[:3, :3], reduction="none"),
        "dense but for one": F.max_unpool2d(dense, dense.long(), 1),
        "complex": F.conv1d(c, torch.ones(3, 2, 4, dtype=c.dtype, device=d).mT),
        "shuffled": F.pixel_shuffle(image, 2),
        "shuffled by one": F.pixel_shuffle(image, 1),
        "unshuffled": F.pixel_unshuffle(image, 2),
    }


def test_results_lie_in_memory_as_eagers_do():
    expected, actual = order_cases("cpu"), order_cases("lazuli")
    assert {k: x.stride() for k, x in actual.items()} == {
        k: x.stride() for k, x in expected.items()
    }


def test_a_shuffle_that_moves_nothing_is_no_view():
    x = torch.zeros(1, 4, 2, 2, device="lazuli")
    for function in (F.pixel_shuffle, F.pixel_unshuffle):
        function(x, 1).add_(1)
    F.pixel_unshuffle(x, 2).add_(1)
    dot = torch.zeros(1, 4, 1, 1, device="lazuli")
    F.pixel_shuffle(dot, 2).add_(1)
    assert x.sum().item() == dot.sum().item() == 0


def test_torchs_kernels_read_what_lies_backwards():
    """The number that is repeated is found in memory only after the call has chosen its operand."""

    def run(device):
        x = normal(2, device=device).sum().reshape(1).repeat(5)
        out = torch.zeros(15, device=device)
        torch.cat((x, x.flip(0), x), out=out)
        return torch.special.airy_ai(x.flip(0)), out, x

    assert_same(run)


def test_strides_of_a_trigamma(device):
    def run(device):
        out = torch.ones(2, 5, 5, device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is resized
            torch.polygamma(1, normal(5, 5, device=device).mT + 9, out=out)
        assert out.stride() == (1, 5)
        return out

    assert_same(run)


def test_an_operand_of_another_type_is_walked_as_its_copy(device):
    """Which has its own strides where the operand's elements share memory."""

    def run(device):
        x = torch.arange(60, device=device).as_strided((1, 6, 3), (1, 0, 1))
        return torch.tensor((x / torch.ones(1, 6, 3, device=device)).stride())

    assert_same(run)


def test_a_flipped_window_is_given_to_torchs_kernel(device):
    """Which has no negative strides: what has ended the process."""

    def run(device):
        x = torch.linspace(1, 2, 5).to(device).reshape(5, 1).expand(5, 5, 5)
        loss = torch.nn.functional.mse_loss(torch.ones(5, device=device), x.reshape(-1)[87:92])
        return loss, torch.cumprod(x.flip(0), 0)

    assert_same(run)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_where_a_pooling_in_one_dimension_lies(device, requires_grad):
    def run(device):
        x = torch.arange(36.0).to(device).as_strided((2, 2, 3), (6, 1, 2))
        y = torch.nn.functional.max_pool1d(x.requires_grad_(requires_grad), 2, padding=1)
        return y, torch.tensor(y.stride())

    assert_same(run)
