"""Copies, of tensors, modules and optimizers: each has its own memory, whoever writes."""

import copy

import pytest
import torch
from differential import assert_same, assert_same_error, normal
from versions import names_dimensions


def test_a_tensor():
    def change(device):
        x = normal(3, 4, device=device) + 1
        y = copy.deepcopy(x)
        x.add_(1)
        return x, y

    assert_same(change)


def test_a_view_copies_its_storage_once():
    def change(device):
        x = normal(3, 4, device=device)
        a, b = copy.deepcopy([x, x[1:, ::2]])
        a.mul_(2)
        return x, a, b, a.untyped_storage()._cdata == b.untyped_storage()._cdata

    assert_same(change)


def test_a_leaf_with_its_gradient():
    def change(device):
        x = normal(3, device=device, grad=True)
        (x * x).sum().backward()
        y = copy.deepcopy(x)
        (y * 2).sum().backward()
        return x.grad, y, y.grad

    assert_same(change)


def test_a_result_cannot_be_copied():
    from differential import assert_same_error

    assert_same_error(lambda d: copy.deepcopy(normal(3, device=d, grad=True) * 2), RuntimeError)


def test_a_module_with_shared_parameters():
    def change(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).to(device)
        net.append(net[0])
        twin = copy.deepcopy(net)
        with torch.no_grad():
            twin[0].weight.zero_()
        return (
            dict(net.named_parameters()),
            dict(twin.named_parameters()),
            twin[2].weight is twin[0].weight,
            dict(twin.named_buffers()),
        )

    assert_same(change)


def test_a_moving_average_of_a_model():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2).to(device)
        averaged = torch.optim.swa_utils.AveragedModel(
            net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(normal(4, 3, device=device)).pow(2).mean().backward()
            optimizer.step()
            averaged.update_parameters(net)
        return list(averaged.parameters()), list(net.parameters())

    assert_same(train)


def test_an_optimizer():
    def train(device):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2).to(device)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        net(normal(4, 3, device=device)).sum().backward()
        optimizer.step()
        twin, twin_optimizer = copy.deepcopy((net, optimizer))
        optimizer.step()
        twin_optimizer.step()
        return list(net.parameters()), list(twin.parameters())

    assert_same(train)


@names_dimensions
@pytest.mark.filterwarnings("ignore:Named tensors")
def test_names_of_dimensions_go_along():
    def copy(device):
        x = normal(2, 3, device=device).refine_names("a", "b")
        y = normal(3, device=device).refine_names("b")
        out = torch.empty(4, 3, device=device)
        torch.cat([x, x], 0, out=out)
        copies = (
            x.cpu(),
            x.clone(),
            x.to(torch.float64),
            torch.empty(2, 3, device=device).copy_(x),
            torch.empty(2, 3, device=device).copy_(y),
            out,
        )
        return [t.names for t in copies], [t.rename(None) for t in copies[1:]]

    assert_same(copy)
    assert_same_error(copy_between_names)


def copy_between_names(device):
    x = normal(2, 3, device=device).refine_names("a", "b")
    x.copy_(normal(2, 3, device=device).refine_names("b", "a"))


HOLES = [((3, 4), (5, 1)), ((3, 4), (8, 2)), ((4,), (3,)), ((2, 3, 4), (15, 5, 1))]


@pytest.mark.parametrize(("size", "stride"), HOLES)
def test_between_the_elements_memory_stays(size, stride):
    def change(device):
        x = torch.empty_strided(size, stride, device=device)
        memory = x.as_strided((x.untyped_storage().nbytes() // 4,), (1,))
        memory.fill_(-1)
        x.copy_(normal(*size, device=device))
        return x, memory

    assert_same(change)


@torch.library.custom_op("lazuli_test::nines", mutates_args=("x",), device_types="cpu")
def nines(x: torch.Tensor) -> None:
    x.fill_(9)


@pytest.mark.parametrize("later", [False, True], ids=["unknown", "known"])
def test_what_another_library_writes_is_no_copys(later):
    if later:
        nines(torch.ones(6, device="lazuli"))

    def change(device):
        x = normal(6, device=device)
        copied, cloned = torch.empty_like(x).copy_(x), x.clone()
        sums = copied.sum() + cloned.sum()
        nines(x)
        return x, copied, cloned, sums

    assert_same(change)


def test_a_copy_into_elements_that_share_memory():
    """As many as the storage has, but one of them twice, and one is in none."""

    def change(device):
        memory = torch.full((4,), -1.0, device=device)
        x = memory.as_strided((2, 2), (1, 1))
        x.copy_(torch.tensor([[0.0, 1.0], [1.0, 2.0]], device=device))
        return x, memory

    assert_same(change)


COMPLEX = [torch.complex32, torch.complex64, torch.complex128]


def complex_normal(*shape, device, dtype=torch.complex64):
    return torch.complex(*normal(2, *shape, device="cpu")).to(dtype).to(device)


@pytest.mark.parametrize("to", COMPLEX)
@pytest.mark.parametrize(
    "source", [torch.bool, torch.int64, torch.float16, torch.float32, torch.float64, *COMPLEX]
)
def test_copies_to_complex_numbers(source, to):
    def write(device):
        numbers = complex_normal(3, 4, device="cpu").mul_(3)
        x = (numbers if source.is_complex else numbers.real).to(source).to(device)
        whole = torch.ones(3, 4, dtype=to, device=device)
        transposed = torch.ones(4, 3, dtype=to, device=device).t()
        window = torch.ones(5, 9, dtype=to, device=device)
        row = torch.ones(2, 4, dtype=to, device=device)
        whole.copy_(x)
        transposed.copy_(x)
        window[1:4, ::2][:, :4].copy_(x)
        row.copy_(x[2])
        return whole, transposed, window, row, whole._version, window._version

    assert_same(write)


@pytest.mark.parametrize("conjugates", [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("from_host", [False, True])
def test_copies_of_conjugates_into_windows(conjugates, from_host):
    def write(device):
        x = complex_normal(3, 4, device="cpu" if from_host else device)
        y = torch.zeros(6, 5, dtype=x.dtype, device=device)
        window = y[::2, 1:]
        to_conjugate, of_conjugate = conjugates
        (window.conj() if to_conjugate else window).copy_(x.conj() if of_conjugate else x)
        y[1, :2] = x[0, :2].conj()
        return y, y.conj().clone(), y.imag

    assert_same(write)


def test_a_complex_copy_where_elements_share_their_place():
    def write(device):
        y = torch.zeros(3, dtype=torch.complex64, device=device).as_strided((3, 3), (0, 1))
        return y.copy_(complex_normal(3, 3, device=device))

    assert_same_error(write, RuntimeError)


def test_complex_copies_end_no_trace(counters):
    def step(device):
        torch.manual_seed(0)
        x = complex_normal(3, 4, device=device).requires_grad_()
        real = normal(3, 4, device=device, grad=True)
        y = torch.fft.fft(real * 2) * x * x.conj()
        z = torch.zeros(6, 4, dtype=torch.complex64, device=device)
        z[::2] = y
        z[1] = y[1]
        z.real.sum().backward()
        return z, x.grad, real.grad

    for _ in range(2):  # an external call that is new ends the trace
        step("lazuli")
        torch.lazuli.synchronize()
    before = counters()["syncs"]
    results = step("lazuli")
    assert counters()["syncs"] == before
    for mine, eagers in zip(results, step("cpu"), strict=True):
        torch.testing.assert_close(mine.cpu(), eagers)
