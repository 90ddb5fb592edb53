"""Parameters in the order in which libraries read them: kept between runs, not once they change."""

import copy
import ctypes
import itertools

import pytest
import torch
from torch import nn

DEVICE = "lazuli"


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 96),
        nn.GELU(),
        nn.Linear(96, 10),
    )


def _read_in_place(model: nn.Module) -> None:
    for p in model.parameters():
        p.mul_(0.9)


def _through_data(model: nn.Module) -> None:
    for p in model.parameters():
        p.data += 0.01


def _from_host(model: nn.Module) -> None:
    for p in model.parameters():
        p.copy_(torch.full(p.shape, 0.02))


def _at_their_addresses(model: nn.Module) -> None:
    for p in model.parameters():
        memory = (ctypes.c_float * p.numel()).from_address(p.data_ptr())
        memory[:] = [0.02] * p.numel()


def _by_another_library(model: nn.Module) -> None:
    """By operators that nothing is known of, which are called while they are recorded."""
    for p in model.parameters():
        name = f"lazuli_test::fill{next(_numbers)}"
        write = torch.library.custom_op(name, _fill, mutates_args=("x",), device_types="cpu")
        write(p)


_numbers = itertools.count()


def _fill(x: torch.Tensor) -> None:
    x.fill_(0.02)


def _a_part(model: nn.Module) -> None:
    for p in model.parameters():
        p[..., :1] = 0.5


def _by_an_operator_without_a_row(model: nn.Module) -> None:
    for p in model.parameters():
        if p.dim() == 2:
            p.renorm_(2, 0, 0.5)


def _load(model: nn.Module) -> None:
    model.load_state_dict({k: v * 1.1 for k, v in model.state_dict().items()})


def _train(model: nn.Module) -> None:
    device = next(model.parameters()).device
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        with torch.enable_grad():
            model(torch.ones(4, 3, 8, 8, device=device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def _by_products_without_a_plan(model: nn.Module) -> None:
    """As an adapter of low rank is merged."""
    with torch.lazuli.config.patch(unplanned="always"):
        for p in model.parameters():
            if p.dim() == 2:
                p += torch.full_like(p[:, :2], 0.02) @ torch.ones_like(p[:2])
        torch.lazuli.synchronize()


def _by_adam_without_a_plan(model: nn.Module) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.lazuli.synchronize()
    with torch.lazuli.config.patch(unplanned="always"):
        optimizer.step()
        torch.lazuli.synchronize()
    for p in model.parameters():
        p.grad = None


@pytest.mark.parametrize(
    "change",
    [
        _read_in_place,
        _through_data,
        _from_host,
        _at_their_addresses,
        _by_another_library,
        _a_part,
        _by_an_operator_without_a_row,
        _load,
        _train,
        _by_products_without_a_plan,
        _by_adam_without_a_plan,
    ],
)
@torch.no_grad()
def test_changed_parameters_are_read(change) -> None:
    cpu = _model()
    ours = copy.deepcopy(cpu).to(DEVICE)
    x = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    for _ in range(3):
        for _ in range(3):  # kept from the second on
            torch.testing.assert_close(ours(x.to(DEVICE)).cpu(), cpu(x), rtol=1e-4, atol=1e-4)
        change(cpu)
        change(ours)
    torch.testing.assert_close(ours(x.to(DEVICE)).cpu(), cpu(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_parameters_of_one_storage() -> None:
    flat, x = torch.randn(2 * 96 * 512), torch.randn(16, 512)
    ours = flat.to(DEVICE)
    parts = [
        (nn.Parameter(a.view(96, 512)), b.view(96, 512))
        for a, b in zip(ours.chunk(2), flat.chunk(2), strict=True)
    ]
    for _ in range(4):
        for weight, expected in parts:
            y = nn.functional.linear(x.to(DEVICE), weight).cpu()
            torch.testing.assert_close(y, x @ expected.T, rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_a_parameter_in_the_memory_of_one_that_is_gone() -> None:
    x = torch.randn(16, 512)
    for _ in range(4):
        expected = torch.randn(96, 512)
        weight = nn.Parameter(expected.to(DEVICE))
        for _ in range(4):
            y = nn.functional.linear(x.to(DEVICE), weight).cpu()
            torch.testing.assert_close(y, x @ expected.T, rtol=1e-4, atol=1e-3)
        del weight


def _held() -> int:
    torch.lazuli.synchronize()
    return torch.lazuli.metrics()["bytes_live"]


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="a GPU's libraries read parameters as they are"
)
@torch.no_grad()
def test_memory_is_given_back(planned: None) -> None:
    torch.lazuli.empty_cache()
    ours = _model().to(DEVICE)
    x = torch.randn(16, 3, 8, 8).to(DEVICE)
    before = _held()
    for _ in range(3):
        ours(x).sum().item()
    kept = _held() - before
    parameters = sum(p.numel() * 4 for p in ours.parameters())
    assert 0 < kept < 3 * parameters
    torch.lazuli.empty_cache()
    assert _held() == before
    with torch.lazuli.config.patch(max_packed_bytes=0):
        for _ in range(3):
            ours(x).sum().item()
        assert _held() == before


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="a GPU's libraries read parameters as they are"
)
@torch.no_grad()
def test_there_is_one_copy_of_parameters() -> None:
    torch.manual_seed(0)
    cpu = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    ours = copy.deepcopy(cpu).to(DEVICE)
    x = torch.randn(16, 512)
    before = _held()
    for _ in range(8):
        y = ours(x.to(DEVICE)).cpu()
    assert _held() - before < 512 * 512 * 4 / 2
    for ours_now, expected in zip(ours.parameters(), cpu.parameters(), strict=True):
        assert torch.equal(ours_now.cpu(), expected)
    assert torch.equal(ours(x.to(DEVICE)).cpu(), y)


@torch.no_grad()
def test_parameters_that_are_packed_are_read_in_other_ways() -> None:
    """Their own memory is the system's by then."""

    def by_torch(weight):
        with torch.lazuli.config.patch(unplanned="always"):
            return (weight * 2).cpu()

    def in_a_shadow_run(weight):
        with torch.lazuli.shadow():
            return (weight * 2).cpu()

    def without_packing(weight):
        with torch.lazuli.config.patch(max_packed_bytes=0):
            return (weight * 2).cpu()

    def at_its_address(weight):
        memory = (ctypes.c_float * weight.numel()).from_address(weight.data_ptr())
        return torch.frombuffer(memory, dtype=torch.float32).view(weight.shape) * 2

    def by_an_operator_without_a_row(weight):
        return torch.block_diag(weight)[:512] * 2

    def while_it_is_recorded(weight):
        with torch.lazuli.config.patch(run_ahead="all"):
            y = weight
            for _ in range(200):
                y = y + 0
            return (y * 2).cpu()

    x = torch.randn(16, 512)
    for read in (
        by_torch,
        in_a_shadow_run,
        without_packing,
        at_its_address,
        by_an_operator_without_a_row,
        while_it_is_recorded,
    ):
        expected = torch.randn(512, 512)
        weight = nn.Parameter(expected.to(DEVICE))
        for _ in range(8):
            y = nn.functional.linear(x.to(DEVICE), weight).cpu()
        assert torch.equal(read(weight).cpu(), expected * 2), read.__name__
        assert torch.equal(nn.functional.linear(x.to(DEVICE), weight).cpu(), y), read.__name__
