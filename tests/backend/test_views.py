"""Views, and views of views: torch's geometry over one storage."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

CHAINS = {
    "slice of slice": lambda x: x[1:5][1:3],
    "strided slice of transpose": lambda x: x.t()[::2, 1:5:3],
    "select of permute": lambda x: x.view(2, 3, 8).permute(2, 0, 1)[3],
    "narrow of unfold": lambda x: x.unfold(1, 4, 2).narrow(1, 1, 2),
    "expand of unsqueeze": lambda x: x.unsqueeze(1).expand(6, 3, 8)[:, 1],
    "diagonal of slice": lambda x: x[:, 2:].diagonal(1),
    "view of view": lambda x: x.view(-1).view(4, 12).view(2, 2, 12)[1],
    "flatten of squeeze": lambda x: x.unsqueeze(0).squeeze(0).flatten(),
    "as_strided": lambda x: x.as_strided((3, 3), (5, 2), 4),
    "movedim of unflatten": lambda x: x.unflatten(1, (2, 4)).movedim(2, 0),
    "swapaxes of chunk": lambda x: x.chunk(3)[1].swapaxes(0, 1),
    "split": lambda x: list(x.split([1, 2, 3])),
    "unbind": lambda x: list(x[::2].unbind(1)),
    "detach of view": lambda x: x[2:].detach()[1],
    "alias": lambda x: torch.ops.aten.alias(x)[3],
    "view_as_real": lambda x: torch.view_as_real(torch.view_as_complex(x.view(6, 4, 2)))[1:, 2],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_geometry_and_numbers(chain):
    assert_same(lambda device: CHAINS[chain](normal(6, 8, device=device)))


@pytest.mark.parametrize("chain", CHAINS)
def test_numbers_of_what_is_pending(chain):
    assert_same(lambda device: CHAINS[chain](normal(6, 8, device=device) * 2 + 1))


@pytest.mark.parametrize("chain", [name for name in CHAINS if name != "split" and name != "unbind"])
def test_computing_with_a_view(chain):
    def compute(device):
        v = CHAINS[chain](normal(6, 8, device=device))
        return v * 2, v.sum(), v + v.mean(), v.contiguous()

    assert_same(compute)


def test_a_view_shares_its_bases_storage(device):
    x = normal(4, 4, device=device)
    v = x.t()[1:]
    assert v.untyped_storage()._cdata == x.untyped_storage()._cdata
    assert v._base is x
    assert v.data_ptr() == x.data_ptr() + 4


def test_a_view_outlives_its_base():
    def keep_the_view(device):
        x = normal(6, 8, device=device) + 1
        return x[2:4, ::3]

    assert_same(keep_the_view)


@pytest.mark.parametrize("target", [torch.int32, torch.uint8, torch.int16, torch.float64])
def test_view_as_another_dtype(target):
    assert_same(lambda device: (normal(4, 6, device=device) + 1).view(target))


def test_writing_through_a_view_of_another_dtype():
    def write(device):
        x = normal(4, 6, device=device)
        x.view(torch.int32)[1].fill_(0x3F800000)
        return x

    assert_same(write)


def test_gradients_through_views():
    def differentiate(device):
        x = normal(6, 8, device=device, grad=True)
        y = x.t()[1:5].unfold(1, 2, 2)[:, 1] * x.view(-1)[:8].view(4, 2)
        y.pow(2).sum().backward()
        return x.grad

    assert_same(differentiate)


@pytest.mark.parametrize("places", [[1, 4], [0, 9, 2], [-2], 4])
@pytest.mark.parametrize("dim", [0, -1])
def test_tensor_split_at_places_of_the_device(places, dim):
    def split(device):
        x = normal(6, 8, device=device, grad=True)
        parts = torch.tensor_split(x, torch.tensor(places).to(device), dim)
        (gradient,) = torch.autograd.grad(sum(n * p.sum() for n, p in enumerate(parts, 1)), x)
        with torch.inference_mode():
            plain = x.detach().clone().tensor_split(torch.tensor(places).to(device), dim)
        assert all(p._base is x for p in parts)
        return list(parts), gradient, list(plain)

    assert_same(split)


@pytest.mark.parametrize("places", [torch.tensor([1.0]), torch.ones(2, 2, dtype=torch.long)])
def test_tensor_split_at_what_are_no_places(places):
    assert_same_error(
        lambda device: torch.tensor_split(normal(4, device=device), places.to(device))
    )


def test_reshape_to_sizes_of_the_device():
    def reshape(device):
        x = normal(6, 8, device=device, grad=True)
        y = torch._reshape_from_tensor(x, torch.tensor([4, -1]).to(device))
        (gradient,) = torch.autograd.grad((y * y).sum(), x)
        with torch.inference_mode():
            plain = torch._reshape_from_tensor(
                x.detach().clone(), torch.tensor([48], device=device)
            )
        return y, gradient, plain

    assert_same(reshape)


def test_reshape_to_sizes_that_do_not_fit():
    assert_same_error(
        lambda device: torch._reshape_from_tensor(
            normal(4, device=device), torch.tensor([3]).to(device)
        )
    )
