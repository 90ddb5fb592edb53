"""Linear layers: one call, with torch's results, errors and gradients."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

CASES = {
    "matrix": ((4, 5), (3, 5), (3,)),
    "batches": ((2, 4, 5), (3, 5), (3,)),
    "many batches": ((2, 1, 4, 5), (3, 5), (3,)),
    "vector": ((5,), (3, 5), (3,)),
    "vector, no bias": ((5,), (3, 5), None),
    "no bias": ((4, 5), (3, 5), None),
    "batches, no bias": ((2, 4, 5), (3, 5), None),
    "no rows": ((0, 5), (3, 5), (3,)),
    "no features": ((2, 4, 0), (3, 0), (3,)),
    "no results": ((4, 5), (0, 5), (0,)),
    "bias of one": ((4, 5), (3, 5), (1,)),
    "weight of one row": ((4, 5), (5,), None),
}
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)


def operands(case, device, dtype=torch.float32, grad=False):
    make = dict(device=device, dtype=dtype, grad=grad)
    return [None if shape is None else normal(*shape, **make) for shape in CASES[case]]


@TYPES
@pytest.mark.usefixtures("with_and_without_plans")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_results(case, dtype, mode):
    def program(device):
        with mode():
            y = F.linear(*operands(case, device, dtype))
            version = None if mode is torch.inference_mode else y._version
            return y.clone(), y.stride(), version

    assert_same(program)


@TYPES
@pytest.mark.usefixtures("with_and_without_plans")
@pytest.mark.parametrize("case", CASES)
def test_gradients(case, dtype):
    def program(device):
        x, w, b = operands(case, device, dtype, grad=True)
        F.linear(x, w, b).sin().sum().backward()
        return [t.grad for t in (x, w, b) if t is not None]

    assert_same(program)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2)])
def test_some_gradients(wanted):
    def program(device):
        every = operands("batches", device)
        some = [every[i].requires_grad_() for i in wanted]
        return torch.autograd.grad(F.linear(*every).sin().sum(), some)

    assert_same(program)


def test_gradient_of_a_gradient():
    def program(device):
        x, w, b = operands("batches", device, grad=True)
        (g,) = torch.autograd.grad(F.linear(x, w, b).sin().sum(), x, create_graph=True)
        return torch.autograd.grad(g.pow(2).sum(), [x, w, b])

    assert_same(program)


@pytest.mark.parametrize("strides", ["transposed", "sliced", "expanded"])
def test_strides(strides):
    def program(device):
        w, b = normal(3, 5, device=device, grad=True), normal(3, device=device)
        x = {
            "transposed": lambda: normal(5, 4, 2, device=device).permute(2, 1, 0),
            "sliced": lambda: normal(2, 8, 5, device=device)[:, ::2],
            "expanded": lambda: normal(1, 4, 5, device=device).expand(2, 4, 5),
        }[strides]()
        y = F.linear(x, w, b)
        y.sum().backward()
        with torch.no_grad():
            z = F.linear(x, w, b)
        return y, z, z.stride(), w.grad

    assert_same(program)


@pytest.mark.parametrize(
    "shapes", [((4, 5), (3, 6), (3,)), ((4, 5), (3, 5), (4,)), ((), (5,), None)]
)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_errors(shapes, mode):
    def program(device):
        with mode():
            F.linear(*(None if s is None else normal(*s, device=device) for s in shapes)).cpu()

    assert_same_error(program)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_types_must_agree(mode):
    def program(device):
        with mode():
            F.linear(normal(4, 5, device=device), normal(3, 5, device=device).double()).cpu()

    assert_same_error(program)


def test_a_weight_written_before_backward_is_an_error(device):
    x, w, _ = operands("matrix", device, grad=True)
    y = F.linear(x, w)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*version 1"):
        y.sum().backward()


def test_a_written_view_of_its_result():
    def program(device):
        x, w, b = operands("batches", device, grad=True)
        y = F.linear(x, w, b)
        y[0] *= 2
        y.sum().backward()
        return y, x.grad, w.grad

    assert_same(program)


@pytest.mark.parametrize("grad", [False, True])
def test_modes_see_the_product(device, grad):
    x, w, b = operands("batches", device, grad=grad)
    with FlopCounterMode(display=False) as flops:
        F.linear(x, w, b)
    assert flops.get_total_flops() == 2 * 8 * 3 * 5


def test_per_sample_gradients():
    def program(device):
        x, w, b = operands("matrix", device)
        one = lambda w, x: F.linear(x, w, b).sin().sum()  # noqa: E731
        return torch.func.vmap(torch.func.grad(one), (None, 0))(w, x)

    assert_same(program)


def test_under_autocast():
    def program(device):
        x, w, b = operands("batches", device, grad=True)
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            y = F.linear(x, w, b)
        y.float().sum().backward()
        return y, w.grad

    assert_same(program, rtol=2e-2, atol=2e-2)
