"""Numbers that are counted: linspace and eye. arange is compared by its OpInfo."""

import pytest
import torch
from differential import assert_same

TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@TYPES
@pytest.mark.parametrize(
    "ends", [(0, 1), (-3.7, 12.1), (5, -5), (2, 2), (-1e30, 1e30), (1e-3, 1e5)]
)
@pytest.mark.parametrize("steps", [1, 2, 3, 8, 100, 1001])
def test_linspace(dtype, ends, steps, device):
    exact = torch.linspace(*ends, steps, dtype=torch.float64)
    found = torch.linspace(*ends, steps, dtype=dtype, device=device).cpu()
    assert found[-1] == torch.tensor(ends[1] if steps > 1 else ends[0], dtype=dtype)
    assert found[0] == torch.tensor(ends[0], dtype=dtype)
    eps = torch.finfo(dtype).eps
    largest = max(map(abs, ends))
    torch.testing.assert_close(found.double(), exact, rtol=eps, atol=2 * largest * 2.0**-52)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.complex64, None])
@pytest.mark.parametrize("steps", [0, 5])
def test_linspace_of_other_types_is_eagers(dtype, steps):
    assert_same(lambda device: torch.linspace(0, 7, steps, dtype=dtype, device=device))


def test_linspace_into_a_tensor():
    def compute(device):
        given = torch.zeros(2, 3, device=device)
        row = given[1]
        torch.linspace(1, 2, 3, out=row)
        return given, torch.linspace(1, 2, 4, out=torch.empty(0, device=device))

    assert_same(compute)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int64, torch.bool, torch.complex64, torch.half]
)
@pytest.mark.parametrize("size", [(3,), (2, 5), (5, 2), (0,), (0, 3), (1, 1)])
def test_eye(dtype, size):
    assert_same(lambda device: torch.eye(*size, dtype=dtype, device=device))


def test_errors_are_eagers(device):
    for size in ((-1,), (2, -3)):
        with pytest.raises(RuntimeError) as eager:
            torch.eye(*size)
        with pytest.raises(RuntimeError) as ours:
            torch.eye(*size, device=device)
        assert str(ours.value) == str(eager.value)
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.linspace(0, 1, -1, device=device)


def test_they_are_no_external_calls(device):
    torch.lazuli.reset_metrics()
    for n in (5, 7, 9, 12):
        x = torch.linspace(-1, n, n, device=device)
        y = torch.eye(n, device=device) @ x[:, None]
        torch.testing.assert_close(y.cpu()[:, 0], torch.linspace(-1, n, n))
    assert torch.lazuli.metrics()["external_calls"] == {}
