"""x[i, j] with index tensors, which is recorded as a step: torch's gradients, names and errors."""

import pytest
import torch
from differential import Double, assert_same, normal


def index(data, device):
    return torch.tensor(data).to(device)


PICKS = {
    "rows": lambda x, d: x[index([2, 0, 2, 1], d)],
    "negative": lambda x, d: x[index([-1, 0, -1], d)],
    "a matrix of rows": lambda x, d: x[index([[2, 0], [1, 1]], d)],
    "int32": lambda x, d: x[index([2, 0], d).int()],
    "columns": lambda x, d: x[:, index([3, 0, 3], d)],
    "columns, in dots": lambda x, d: x[..., index([3, 0, 3], d)],
    "rows and columns": lambda x, d: x.view(3, 2, 2)[index([2, 0, 2], d), :, index([1, 0, 1], d)],
    "elements": lambda x, d: x[index([2, 0, 2], d), index([1, 3, 1], d)],
    "broadcast": lambda x, d: x[index([[2], [0]], d), index([1, 3, 1], d)],
    "transposed": lambda x, d: x.t()[index([2, 0, 2], d)],
    "a window": lambda x, d: x[1:, ::2][index([1, 0, 1], d)],
    "a number": lambda x, d: x[index(1, d)],
    "a mask": lambda x, d: x[index([True, False, True], d)],
    "on the host": lambda x, d: x[torch.tensor([2, 0, 2])],
    "a list": lambda x, d: x[[2, 0, 2]],
    "none": lambda x, d: x[index([], d).long()],
}
EACH = pytest.mark.parametrize("pick", PICKS.values(), ids=PICKS)


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_gradients(pick, dtype):
    def program(device):
        x = normal(3, 4, device=device, dtype=dtype, grad=True)
        y = pick(x * 2, device)
        y.backward(torch.linspace(0.5, 1.5, y.numel()).reshape(y.shape).to(dtype).to(device))
        return y, x.grad

    assert_same(program)


@EACH
def test_names(pick):
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        return pick(x * 2, device).grad_fn.name()

    assert_same(program)


@EACH
def test_between_other_nodes(pick):
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        y = Double.apply(pick(Double.apply(x).sin(), device).exp())
        y.sum().item()
        y.sum().backward()
        return x.grad

    assert_same(program)


@EACH
def test_second_derivative(pick):
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        (g,) = torch.autograd.grad(pick(x * x, device).square().sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)

    assert_same(program, ignore=("stride",))


@pytest.mark.parametrize("written", ["operand", "index", "result", "nothing"])
@pytest.mark.parametrize("host", [False, True])
def test_writes_before_backward(written, host):
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        a, i = x * 2, torch.tensor([2, 0, 2]).to("cpu" if host else device)
        y = a[i]
        with torch.no_grad():
            {"operand": a, "index": i, "result": y, "nothing": x}[written].mul_(1)
        try:
            return torch.autograd.grad(y.sum(), [x])
        except RuntimeError:
            return "may not be written"

    assert_same(program)


def test_backward_twice():
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        y = (x * 2)[index([2, 0, 2], device)]
        y.sum().backward()
        try:
            y.sum().backward()
            return "may run again"
        except RuntimeError:
            return "may not run again"

    assert_same(program)


def test_out_of_range(device):
    x = normal(3, 4, device=device, grad=True)
    y = (x * 2)[index([2, 3], device)]
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        y.sum().item()


@pytest.mark.parametrize("name", sorted(set(PICKS) - {"on the host", "a list", "a number"}))
def test_no_node_is_made(name, device):
    x = normal(3, 4, device=device, grad=True)
    before = torch.lazuli.metrics()["autograd_nodes"]
    torch.tanh(PICKS[name](torch.tanh(x), device)).sum().backward()
    assert torch.lazuli.metrics()["autograd_nodes"] == before


def test_messages_in_a_loop():
    """Traces that end in each turn, of several sizes."""

    def program(device):
        w = normal(4, 4, device=device, grad=True)
        total, read = 0.0, []
        for n in (3, 5, 3, 4, 5):
            h = torch.ones(n, 4, device=device) @ w
            source = (torch.arange(2 * n) % n).to(device)
            messages = torch.tanh(h)[source]
            read.append(messages.sum().item())
            total = total + messages.square().sum()
        total.backward()
        return w.grad, torch.tensor(read)

    assert_same(program)


ADDS = {
    "index_add": lambda x, y, i: x.index_add(0, i, y),
    "index_add, factor": lambda x, y, i: x.index_add(0, i, y, alpha=3),
    "index_add, columns": lambda x, y, i: x.t().index_add(1, i, y.t()),
    "scatter_add": lambda x, y, i: x.scatter_add(0, i.unsqueeze(1).expand(-1, 4), y),
}
ADD = pytest.mark.parametrize("add", ADDS.values(), ids=ADDS)


@ADD
@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1)])
def test_adding(add, wanted):
    def program(device):
        every = [normal(3, 4, device=device), normal(4, 4, device=device)]
        some = [every[i].requires_grad_() for i in wanted]
        y = add(every[0] * 1, every[1] * 1, index([2, 0, 2, 1], device))
        first = torch.autograd.grad(y.square().sum(), some, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), some)
        return y.grad_fn.name(), y, first, second

    assert_same(program, ignore=("stride",))


@ADD
@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("written", [0, 1, 2, 3])
def test_writes_before_backward_of_sums(add, wanted, written):
    def program(device):
        leaves = [normal(3, 4, device=device), normal(4, 4, device=device)]
        operands = [t.requires_grad_(i in wanted) * 1 for i, t in enumerate(leaves)]
        operands.append(index([2, 0, 2, 1], device))
        y = add(*operands)
        with torch.no_grad():
            [*operands, y][written].mul_(1)
        try:
            return torch.autograd.grad(y.sum(), [leaves[i] for i in wanted])
        except RuntimeError:
            return "may not be written"

    assert_same(program, ignore=("stride",))


@ADD
def test_adding_makes_no_node(add, device):
    x, y = normal(3, 4, device=device, grad=True), normal(4, 4, device=device, grad=True)
    before = torch.lazuli.metrics()["autograd_nodes"]
    torch.tanh(add(torch.tanh(x), torch.tanh(y), index([2, 0, 2, 1], device))).sum().backward()
    assert torch.lazuli.metrics()["autograd_nodes"] == before
