"""Caches that grow by torch.cat: what is new is written behind them (lazy/record/appending.h)."""

import copy
import io
from collections.abc import Callable

import pytest
import torch

pytestmark = pytest.mark.usefixtures("append_everywhere")


@pytest.fixture
def append_everywhere():
    config = torch.lazuli.config
    before, config.append_in_place = config.append_in_place, "always"
    yield
    config.append_in_place = before


def appended() -> int:
    return torch.lazuli.metrics()["appends_in_place"]


def grown(device: str, dim: int, times: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A cache that has grown by one and two at a time, in a trace each."""
    torch.manual_seed(0)
    cache = (torch.randn(2, 3, 4) * 8).to(dtype).to(device)
    for i in range(times):
        sizes = list(cache.shape)
        sizes[dim] = 1 + i % 2
        cache = torch.cat([cache, (torch.randn(sizes) * 8).to(dtype).to(device)], dim)
        cache.sum().item()
    return cache


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool]
)
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@torch.no_grad()
def test_what_has_grown_is_what_eager_has(dim: int, dtype: torch.dtype):
    before = appended()
    ours, eager = grown("lazuli", dim, 12, dtype), grown("cpu", dim, 12, dtype)
    assert appended() - before >= 8
    assert torch.equal(ours.cpu(), eager)
    assert (ours.shape, ours.stride(), ours.dtype) == (eager.shape, eager.stride(), eager.dtype)
    assert ours.is_contiguous()
    assert ours.untyped_storage().nbytes() == eager.nbytes


@torch.no_grad()
def test_several_times_in_one_trace():
    def run(device: str) -> torch.Tensor:
        cache = grown(device, 1, 5)
        for _ in range(9):
            cache = torch.cat([cache, cache[:, :1] * 0.5], 1)
        return cache.cpu()

    assert torch.equal(run("lazuli"), run("cpu"))


def keep_the_old_ones(cache: torch.Tensor) -> list[torch.Tensor]:
    kept = [cache]
    for i in range(4):
        kept.append(torch.cat([kept[-1], kept[-1][:, :1] + i], 1))
        kept[-1].sum().item()
    return kept


def grow_twice_from_one(cache: torch.Tensor) -> list[torch.Tensor]:
    one = torch.cat([cache, cache[:, :1]], 1)
    one.sum().item()
    other = torch.cat([cache, cache[:, 1:2]], 1)
    return [torch.cat([one, other[:, :1]], 1), other, cache]


def write_to_it(cache: torch.Tensor) -> list[torch.Tensor]:
    longer = torch.cat([cache, cache[:, :2]], 1)
    longer.sum().item()
    longer[:, 1] = 3
    cache.mul_(2)
    view = longer.view(-1)
    view[-3:] = 5
    longest = torch.cat([longer, cache[:, :1]], 1)
    return [cache, longer, longest, view]


def look_at_it_otherwise(cache: torch.Tensor) -> list[torch.Tensor]:
    longer = torch.cat([cache, cache[:, :1]], 1)
    return [
        longer.transpose(0, 1),
        longer.reshape(-1),
        longer.view(2, -1)[:, 3:9],
        longer.as_strided((3,), (2,), 1),
        longer.expand(2, *longer.shape),
        longer.unfold(1, 2, 1),
        longer.view(torch.int32),
        longer.detach(),
    ]


def copy_it(cache: torch.Tensor) -> list[torch.Tensor]:
    longer = torch.cat([cache, cache[:, :1]], 1)
    file = io.BytesIO()
    torch.save(longer, file)
    file.seek(0)
    return [copy.deepcopy(longer), longer.clone(), torch.load(file), longer.to(torch.float64)]


def resize_it(cache: torch.Tensor) -> list[torch.Tensor]:
    longer = torch.cat([cache, cache[:, :1]], 1)
    longer.resize_(2, 3)
    return [longer, torch.cat([longer, longer[:, :1]], 1)]


def read_it_on_the_host(cache: torch.Tensor) -> list[torch.Tensor]:
    longer = torch.cat([cache, cache[:, :1]], 1)
    numbers = torch.tensor(longer.tolist()), torch.from_numpy(longer.cpu().numpy())
    return [*numbers, torch.cat([longer, cache[:, :1]], 1)]


def differentiate_through_it(cache: torch.Tensor) -> list[torch.Tensor]:
    longer = torch.cat([cache, cache[:, :1]], 1)
    with torch.enable_grad():
        weight = torch.ones_like(longer[:, :1]).requires_grad_()
        y = (longer * weight).square().sum() + torch.cat([longer, weight], 1).sum()
        y.backward()
    return [y.detach(), weight.grad, longer, torch.cat([longer, weight.grad], 1)]


@pytest.mark.parametrize(
    "use",
    [
        keep_the_old_ones,
        grow_twice_from_one,
        write_to_it,
        look_at_it_otherwise,
        copy_it,
        resize_it,
        read_it_on_the_host,
        differentiate_through_it,
    ],
)
@torch.no_grad()
def test_it_is_a_tensor_like_others(use: Callable[[torch.Tensor], list[torch.Tensor]]):
    before = appended()
    ours, eager = use(grown("lazuli", 1, 6)), use(grown("cpu", 1, 6))
    assert appended() > before
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-6, atol=0)
        assert (a.shape, a.stride()) == (b.shape, b.stride())


@torch.no_grad()
def test_a_step_that_fails_leaves_the_old_one():
    cache = grown("lazuli", 1, 6)
    expected = cache.cpu()
    longer = torch.cat([cache, cache[:, :1]], 1)
    index = torch.tensor([99]).to("lazuli")
    with pytest.raises((IndexError, RuntimeError)):
        longer.index_select(1, index).sum().item()
    assert torch.equal(cache.cpu(), expected)
    again = torch.cat([cache, cache[:, :1]], 1)
    assert torch.equal(again.cpu(), torch.cat([expected, expected[:, :1]], 1))


def test_what_may_need_gradients_is_copied():
    before = appended()
    grown("lazuli", 1, 8)
    assert appended() == before


@torch.no_grad()
def test_small_ones_and_new_ones_are_copied_unless_all_are_to_grow():
    torch.lazuli.config.append_in_place = "auto"
    before = appended()
    grown("lazuli", 1, 8)
    large = torch.zeros(4, 64, 64).to("lazuli")
    for _ in range(3):
        large = torch.cat([large, large[:, :1]], 1)
        large.sum().item()
    assert appended() == before
    for _ in range(9):
        large = torch.cat([large, large[:, :1]], 1)
        large.sum().item()
    assert appended() > before


@torch.no_grad()
def test_the_room_is_bounded():
    torch.lazuli.config.append_in_place = "auto"
    cache = torch.zeros(8, 512, 64).to("lazuli")
    torch.lazuli.synchronize()
    empty = torch.lazuli.metrics()["bytes_live"] - cache.nbytes
    for _ in range(200):
        cache = torch.cat([cache, cache[:, :1] + 1], 1)
        cache[:, -1].sum().item()
        # A quarter of room, and what the allocator rounds up.
        assert torch.lazuli.metrics()["bytes_live"] - empty <= 1.55 * cache.nbytes
