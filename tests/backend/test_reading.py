"""Ways to look at a tensor from Python: print, item, tolist, numpy, dlpack, iteration."""

import numpy
import pytest
import torch
from differential import assert_same, assert_same_error, normal, tensor


@pytest.mark.parametrize(
    "make",
    [
        lambda d: normal(3, device=d),
        lambda d: normal(2, 3, device=d, grad=True),
        lambda d: normal(2, 3, device=d, grad=True) * 2,
        lambda d: tensor([1, 2], d),
        lambda d: tensor(True, d),
        lambda d: torch.empty(0, 3, device=d),
        lambda d: normal(40, 50, device=d),
        lambda d: normal(4, device=d).bfloat16(),
        lambda d: tensor([1e10, 1e-10, float("nan"), float("inf")], d),
        lambda d: torch.nn.Parameter(normal(2, device=d)),
    ],
)
def test_print(make):
    def show(device):
        return "".join(repr(make(device)).split()).replace(",device='lazuli:0'", "")

    assert_same(show)


def test_print_names_the_device():
    assert repr(torch.ones(1, device="lazuli")) == "tensor([1.], device='lazuli:0')"
    assert f"{torch.tensor(2.5).to('lazuli'):.2f}" == "2.50"
    assert str(torch.nn.Linear(2, 2).to("lazuli")).startswith("Linear(")


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
)
def test_item_and_tolist(dtype):
    def read(device):
        x = tensor([[1, 0], [3, 2]], device).to(dtype)
        return x[1, 0].item(), x.tolist(), x[0].tolist(), (x + x)[1, 1].item()

    assert_same(read)


def test_iteration_and_length():
    def read(device):
        x = normal(3, 2, device=device)
        return len(x), list(x), [float(v) for v in x[0]], 1.0 in tensor([1.0, 2.0], device)

    assert_same(read)


def test_numpy_needs_the_host():
    x = torch.ones(2, device="lazuli")
    with pytest.raises(TypeError, match="can't convert lazuli:0 device type tensor to numpy"):
        x.numpy()
    with pytest.raises(TypeError):
        numpy.asarray(x)
    assert x.cpu().numpy().tolist() == [1, 1]
    assert x.numpy(force=True).tolist() == [1, 1]


def test_from_numpy():
    assert torch.from_numpy(numpy.arange(3)).to("lazuli").tolist() == [0, 1, 2]
    assert torch.as_tensor(numpy.arange(3.0), device="lazuli").sum().item() == 3
    assert torch.tensor(numpy.float32(2.5), device="lazuli").item() == 2.5


def test_truth_and_comparison_in_python():
    def decide(device):
        x = tensor([1.0, 2.0], device)
        return bool((x > 0).all()), bool(x.sum() == 3), torch.equal(x, x + 0), x.allclose(x)

    assert_same(decide)


def test_equal_of_different_shapes():
    assert_same(lambda d: torch.equal(normal(2, device=d), normal(3, device=d)))


def test_hash_and_identity():
    x = torch.ones(2, device="lazuli")
    assert hash(x) == id(x)
    assert x in {x: 1}


def test_data_ptr_tells_storages_apart():
    x, y = torch.ones(4, device="lazuli"), torch.ones(4, device="lazuli")
    assert x.data_ptr() != y.data_ptr()
    assert x.data_ptr() == x.view(2, 2).data_ptr()
    assert torch.empty(0, device="lazuli").data_ptr() == 0


def test_unpacking_many_results():
    def read(device):
        values, indices = normal(3, 4, device=device).max(1)
        u, s, _ = torch.linalg.svd(normal(3, 3, device=device))
        return values, indices, s, u.abs()

    assert_same(read, ignore=("stride",), rtol=1e-4, atol=1e-5)


def test_reading_what_depends_on_data():
    def read(device):
        x = tensor([3, 0, 1, 0, 3], device)
        return x.nonzero(), x.unique(), x[x > 0], x.bincount(), torch.masked_select(x, x > 1)

    assert_same(read)


def test_error_of_item_of_many():
    assert_same_error(lambda d: normal(3, device=d).item(), RuntimeError)
