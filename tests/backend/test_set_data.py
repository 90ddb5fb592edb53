"""Changing what a tensor is: `.data =`, `set_`, `swap_tensors`."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal, without_device


def test_data_of_a_view_whose_base_was_written(device):
    def run(device):
        x = torch.ones(4, 4, device=device).requires_grad_() * 1
        part, other = x.chunk(2)
        with torch.no_grad():
            part.square_()
        other.data = torch.zeros(3, device=device)
        return other.detach()

    assert_same(run)


def test_data_takes_other_numbers():
    def change(device):
        x = normal(3, 4, device=device)
        alias = x[1]
        x.data = normal(5, 2, device=device) * 2
        x.add_(1)
        return x, alias

    assert_same(change)


def test_data_reads_without_history():
    def change(device):
        x = normal(3, 4, device=device, grad=True)
        version = x._version
        x.data.mul_(2)
        x.data[0] = 5
        assert x._version == version
        return x

    assert_same(change)


def test_data_of_a_parameter_moves_it_to_the_device(device):
    p = torch.nn.Parameter(torch.ones(3))
    p.data = (torch.ones(3) * 2).to(device)
    assert p.device.type == device
    assert p.is_lazuli
    assert (p + 1).sum().item() == 9


def test_data_of_a_parameter_moves_it_to_the_host(device):
    p = torch.nn.Parameter(torch.ones(3).to(device))
    p.data = torch.full((3,), 4.0)
    assert p.device.type == "cpu"
    assert (p + 1).sum().item() == 15


def test_gradient_after_data_changed():
    def differentiate(device):
        x = normal(3, device=device, grad=True)
        y = x.sin()
        x.data = normal(3, device=device)
        y.sum().backward()
        return x.grad

    assert_same(differentiate)


@pytest.mark.parametrize("trace", ["goes on", "has ended"])
def test_gradient_after_data_changed_of_what_was_read_in_another_order(trace):
    """The product is computed in the order of its first operand in memory."""

    def differentiate(device):
        x, y = normal(3, 4, device=device, grad=True), normal(4, 3, device=device, grad=True)
        product = y.t() * x
        if trace == "has ended" and device == "lazuli":
            torch.lazuli.synchronize()
        x.data = normal(3, 4, device=device)
        product.sum().backward()
        return x.grad, y.grad

    assert_same(differentiate, ignore=["stride"])


KEPT_RESULTS = {
    "mean of a layer": (lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5), 1),
    "scale of a layer": (lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5), 2),
    "mean of a group": (lambda x: torch.native_group_norm(x, None, None, 2, 3, 4, 3, 1e-5), 1),
    "scale of a batch": (
        lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
        2,
    ),
    "sum of weights": (
        lambda x: torch.ops.aten.nll_loss2d_forward(
            x[None], torch.ones(1, 3, 4, dtype=torch.int64, device=x.device), None, 1, -100
        ),
        1,
    ),
    "indices": (lambda x: torch.nn.functional.max_pool2d(x, 2, return_indices=True), 1),
}


@pytest.mark.parametrize("way", ["replaced", "written"])
@pytest.mark.parametrize("trace", ["goes on", "has ended"])
@pytest.mark.parametrize("name", KEPT_RESULTS)
def test_gradient_after_data_changed_of_a_result(name, trace, way):
    """Of those that have no history, torch's backward reads what they show then."""
    call, number = KEPT_RESULTS[name]

    def differentiate(device):
        x = normal(2, 3, 4, device=device, grad=True)
        results = call(x)
        if trace == "has ended" and device == "lazuli":
            torch.lazuli.synchronize()
        kept = results[number]
        other = kept.detach() * 0 + 2
        if way == "replaced":
            kept.data = other
        else:
            kept.data.copy_(other)
        results[0].sin().sum().backward()
        return x.grad

    assert_same(differentiate)


def test_data_of_a_result_that_backward_does_not_read_is_refused(device):
    """Statistics of 16 bits: torch's formula reads them, ours what they are rounded from."""

    def differentiate(device):
        x = normal(3, 4, device=device).bfloat16().requires_grad_()
        y, mean, _ = torch.native_layer_norm(x, (4,), None, None, 1e-5)
        mean.data = mean.data * 2 + 1
        y.sin().sum().backward()
        return x.grad

    if not torch.lazuli.config.light_autograd:
        assert_same(differentiate, rtol=2e-2, atol=2e-2)
        return
    with pytest.raises(RuntimeError, match="kept for backward was given other numbers"):
        differentiate(device)


def test_data_of_another_shape_keeps_the_old_gradient_out():
    def change(device):
        x = normal(3, device=device, grad=True)
        x.sum().backward()
        x.grad.data = normal(3, device=device)
        return x.grad

    assert_same(change)


def test_set_shares_the_source():
    def change(device):
        x, y = normal(3, 4, device=device), normal(4, 6, device=device) + 1
        x.set_(y)
        x[0] = 9
        return x, y, x.untyped_storage()._cdata == y.untyped_storage()._cdata

    assert_same(change)


def test_set_a_storage_with_geometry():
    def change(device):
        x, y = normal(2, device=device), normal(4, 6, device=device) + 1
        x.set_(y.untyped_storage(), 3, (2, 3), (6, 2))
        x.mul_(2)
        return x, y

    assert_same(change)


def test_set_a_storage():
    def change(device):
        x, y = normal(2, device=device), normal(4, 6, device=device) + 1
        return x.set_(y.untyped_storage())

    assert_same(change)


def test_set_nothing():
    def change(device):
        x = normal(2, 3, device=device)
        y = x[1]
        x.set_()
        return x, y

    assert_same(change)


def test_set_beyond_the_source_makes_it_larger():
    def change(device):
        x, y = normal(2, device=device), normal(4, device=device)
        x.set_(y.untyped_storage(), 2, (4,), (1,))
        x[2:].fill_(1)
        return x, y, y.untyped_storage().nbytes()

    assert_same(change)


SAME_SIZES = [((1,), (1,)), ((2,), (2,)), ((1, 2), (2, 1)), ((2,), (0,))]


@pytest.mark.parametrize(("size", "stride"), SAME_SIZES)
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_set_to_the_same_sizes_beyond_the_source(size, stride, offset):
    """Memory only grows for other sizes or strides than the tensor had."""

    def change(device):
        x = torch.empty_strided(size, stride, device=device, dtype=torch.float64)
        y = torch.ones(2, device=device)
        try:
            x.set_(y.untyped_storage(), offset, size, stride)
        except RuntimeError as error:
            return without_device(error)
        return x.untyped_storage().nbytes()

    assert_same(change)


def test_set_of_another_dtype_is_an_error():
    assert_same_error(
        lambda device: normal(2, device=device).set_(
            torch.zeros(2, dtype=torch.int64, device=device)
        )
    )


def test_swap_tensors():
    def change(device):
        a, b = normal(2, device=device), normal(3, 4, device=device)
        torch.utils.swap_tensors(a, b)
        a.add_(1)
        return a, b

    assert_same(change)


RESHAPED = {
    "data": lambda y: setattr(y, "data", torch.ones(5, 3, device=y.device)),
    "transpose_": lambda y: y.transpose_(0, 1),
    "unsqueeze_": lambda y: y.unsqueeze_(0),
}


@pytest.mark.parametrize("change", RESHAPED.values(), ids=RESHAPED)
@pytest.mark.parametrize("made", [torch.relu, lambda x: x[0:1], lambda x: x.view(1, 3)])
def test_a_result_of_another_shape_behind_autograds_back(change, made):
    """What flows back is added up to the shape that its node knows, or is an error."""

    def run(device):
        x = torch.tensor([[1.0, 2.0, 3.0]]).to(device).requires_grad_()
        y = made(x)
        with torch.no_grad():
            change(y)
        try:
            (gradient,) = torch.autograd.grad(y.sum(), y)
            made(x).sum().backward()
            y.mul(3).sum().backward()
        except RuntimeError as error:
            return without_device(error)
        return gradient, x.grad

    assert_same(run)


CURVED = {
    "abs": lambda x: x.abs() * x,
    "sigmoid": torch.sigmoid,
    "square": lambda x: x * x,
    "cube": lambda x: x**3,
    "fourth power": lambda x: x.pow(4),
    "exp": torch.exp,
    "softmax": lambda x: torch.softmax(x, 0),
    "gelu": torch.nn.functional.gelu,
    "quotient": lambda x: x / (x * x).sum(),
    "product": lambda x: x.unsqueeze(0) @ x.unsqueeze(1),
    "variance": lambda x: x.var(),
}


@pytest.mark.parametrize("curve", CURVED.values(), ids=CURVED)
@pytest.mark.parametrize("read", [False, True], ids=["one trace", "two traces"])
def test_derivatives_after_a_write_behind_autograds_back(curve, read):
    """What torch's nodes keep is the operand itself: derivatives are those at its new numbers."""

    def run(device):
        x = torch.tensor([1.5, 0.5, 2.0]).to(device).requires_grad_()
        y = curve(x)
        again = curve(x)
        if read:
            y.detach().cpu()
        x.data.mul_(0.7)
        (plain,) = torch.autograd.grad(again.sum(), x)
        found = [plain]
        of = y.sum()
        for _ in range(3):
            (slope,) = torch.autograd.grad(of, x, create_graph=True)
            found.append(slope.detach())
            of = (slope * slope).sum()
        return found

    assert_same(run)
