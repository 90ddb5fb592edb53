"""`resize_` of tensors and storages."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal


def test_smaller_keeps_the_numbers():
    assert_same(lambda device: normal(4, 6, device=device).resize_(2, 3))


def test_larger_keeps_the_first_numbers():
    def change(device):
        x = normal(4, device=device)
        x.resize_(2, 5)
        return x.view(-1)[:4], torch.tensor(x.shape), x.untyped_storage().nbytes()

    assert_same(change)


def test_what_is_pending():
    def change(device):
        x = normal(4, device=device) + 1
        x.resize_(3, 3)
        x.view(-1)[4:] = 0
        return x

    assert_same(change)


def test_a_view_sees_the_larger_storage():
    def change(device):
        x = normal(4, device=device)
        v = x[1:3]
        x.resize_(8)
        x[4:] = 1
        x.add_(1)
        return x, v

    assert_same(change)


def test_back_and_forth():
    def change(device):
        x = normal(4, 6, device=device)
        return x.resize_(2).resize_(4, 6)

    assert_same(change)


def test_to_nothing_and_back():
    def change(device):
        x = normal(4, device=device)
        x.resize_(0)
        empty = x.shape
        x.resize_(2, 2).fill_(3)
        return list(empty), x

    assert_same(change)


def test_memory_format():
    def change(device):
        x = torch.empty(0, device=device).resize_(2, 3, 4, 5, memory_format=torch.channels_last)
        return x.fill_(1)

    assert_same(change)


def test_resize_as():
    assert_same(
        lambda device: normal(12, device=device).resize_as_(torch.empty(3, 4, device=device))
    )


def test_storage_to_nothing_and_back():
    def change(device):
        x = normal(4, device=device)
        storage = x.untyped_storage()
        sizes = [storage.nbytes()]
        storage.resize_(0)
        sizes.append(storage.nbytes())
        storage.resize_(16)
        x.fill_(2)
        return sizes, x

    assert_same(change)


def test_storage_keeps_its_first_bytes():
    def change(device):
        x = normal(4, device=device) * 2
        x.untyped_storage().resize_(40)
        return x, x.untyped_storage().nbytes()

    assert_same(change)


@pytest.mark.filterwarnings("ignore:non-inplace resize is deprecated")
def test_errors():
    assert_same_error(lambda device: normal(4, device=device).resize_(-1), RuntimeError)
    assert_same_error(lambda device: normal(4, device=device, grad=True).resize_(2), RuntimeError)


def test_resizing_a_tensor_that_numpy_sees_is_an_error():
    """Shared memory cannot move; on the device nothing is shared with NumPy."""
    import numpy

    with pytest.raises(RuntimeError, match="not resizable"):
        torch.from_numpy(numpy.zeros(2)).resize_(100)
    x = torch.from_numpy(numpy.zeros(2)).to("lazuli")
    assert x.resize_(100).shape == (100,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
@pytest.mark.parametrize("fill", [True, False])
def test_what_is_new_under_deterministic_algorithms(dtype, fill):
    def change(device):
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = fill
        try:
            x = normal(4, device=device).to(dtype)
            x.resize_(2, 5)
            y = normal(3, device=device).to(dtype)[1:]
            y.resize_(4)
        finally:
            torch.use_deterministic_algorithms(False)
            torch.utils.deterministic.fill_uninitialized_memory = True
        return (x, y) if fill else (x.view(-1)[:4], y[:2])

    assert_same(change)
