"""cat, stack and logsumexp, which are recorded as steps: of however many tensors."""

import math

import pytest
import torch
from differential import Double, assert_same, normal

JOINS = {
    "cat": lambda t: torch.cat(t),
    "cat, last dimension": lambda t: torch.cat(t, -1),
    "cat, sizes differ": lambda t: torch.cat([x[: 1 + i % 2] for i, x in enumerate(t)]),
    "cat, one is empty": lambda t: torch.cat([t[0][:0], *t]),
    "stack": lambda t: torch.stack(t),
    "stack, middle": lambda t: torch.stack(t, 1),
    "stack, last dimension": lambda t: torch.stack(t, -1),
    "stack of numbers": lambda t: torch.stack([x.sum() for x in t]),
    "stack of rows": lambda t: torch.stack([x[0] for x in t], -1),
    "cat of transposed": lambda t: torch.cat([x.t() for x in t], 1),
}
EACH = pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
COUNT = pytest.mark.parametrize("count", [1, 3, 40, 70])


def made_nodes():
    return torch.lazuli.metrics()["autograd_nodes"]


@EACH
@COUNT
def test_gradients(join, count):
    def program(device):
        leaves = [normal(2, 3, device=device, grad=True) for _ in range(count)]
        joined = join([x * (i + 1) for i, x in enumerate(leaves)])
        joined.backward(torch.linspace(0.5, 1.5, joined.numel()).reshape(joined.shape).to(device))
        return joined, [x.grad for x in leaves]

    assert_same(program)


@EACH
@COUNT
def test_no_node_is_made(join, count, device):
    leaves = [normal(2, 3, device=device, grad=True) for _ in range(count)]
    before = made_nodes()
    join([torch.tanh(x) for x in leaves]).sum().backward()
    assert made_nodes() == before


@EACH
def test_graph(join):
    def program(device):
        leaves = [normal(2, 3, device=device, grad=True) for _ in range(40)]
        node = join([x * 2 for x in leaves]).grad_fn
        return node.name(), len(node.next_functions), [n.name() for n, _ in node.next_functions]

    assert_same(program)


@EACH
def test_after_a_node_was_made(join):
    def program(device):
        leaves = [normal(2, 3, device=device, grad=True) for _ in range(70)]
        joined = join([Double.apply(x) if i % 3 else x * 2 for i, x in enumerate(leaves)])
        Double.apply(joined.sin()).sum().backward()
        return [x.grad for x in leaves]

    assert_same(program)


@EACH
def test_of_some(join):
    """Gradients of few, and of what requires none."""

    def program(device):
        leaves = [normal(2, 3, device=device, grad=i % 5 != 1) for i in range(70)]
        joined = join([x * 3 for x in leaves]).square().sum()
        return torch.autograd.grad(joined, [leaves[i] for i in (0, 35, 63, 64, 69)])

    assert_same(program, ignore=("stride",))


@EACH
def test_second_derivative(join):
    def program(device):
        leaves = [normal(2, 3, device=device, grad=True) for _ in range(66)]
        first = torch.autograd.grad(
            join([x * x for x in leaves]).square().sum(), leaves, create_graph=True
        )
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    assert_same(program, ignore=("stride",))


@EACH
def test_batched_gradients(join):
    def program(device):
        leaves = [normal(2, 3, device=device, grad=True) for _ in range(4)]
        joined = join([x * 3 for x in leaves])
        rows = torch.eye(joined.numel()).reshape(-1, *joined.shape)[:5].to(device)
        return torch.autograd.grad(joined, leaves, rows, is_grads_batched=True)

    assert_same(program, ignore=("stride",))


def test_backward_twice():
    """Nothing is kept, so it may run again."""

    def program(device):
        leaves = [normal(2, 3, device=device, grad=True) for _ in range(3)]
        joined = torch.stack([torch.cat(leaves), torch.cat(leaves)])
        for _ in range(2):
            joined.backward(torch.ones_like(joined))
        return [x.grad for x in leaves]

    assert_same(program)


def test_what_is_joined_may_be_written():
    def program(device):
        leaves = [normal(2, 3, device=device, grad=True) for _ in range(3)]
        parts = [x * 2 for x in leaves]
        joined = torch.stack(parts)
        with torch.no_grad():
            parts[1].mul_(5)
        joined.sin().sum().backward()
        return joined, [x.grad for x in leaves]

    assert_same(program)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_images(join, memory):
    def program(device):
        leaves = [
            normal(2, 3, 4, 5, device=device).contiguous(memory_format=memory).requires_grad_()
            for _ in range(3)
        ]
        joined = join([x * 2 for x in leaves], 1)
        joined.square().sum().backward()
        return joined, joined.stride(), [(x.grad, x.grad.stride()) for x in leaves]

    assert_same(program)


@pytest.mark.parametrize("types", [(torch.float16,), (torch.float32, torch.float64)], ids=str)
@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_types(join, types):
    def program(device):
        leaves = [
            normal(2, 3, device=device, dtype=types[i % len(types)], grad=True) for i in range(4)
        ]
        joined = join([x * 2 for x in leaves])
        joined.backward(torch.ones_like(joined) * 0.5)
        return joined, [x.grad for x in leaves]

    assert_same(program)


@pytest.mark.parametrize(
    "sizes", [[(2, 3), (2, 4)], [(2, 3), (3,)], [(0,), (2, 3)], [(), ()], []], ids=str
)
@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_odd_shapes(join, sizes):
    def program(device):
        leaves = [normal(*s, device=device, grad=True) for s in sizes]
        try:
            joined = join([x * 2 for x in leaves])
        except (RuntimeError, ValueError) as e:
            return type(e).__name__
        joined.sum().backward()
        return joined, [x.grad for x in leaves]

    assert_same(program)


def test_a_loop_whose_trace_ends_in_each_turn():
    def program(device):
        w = normal(4, 4, device=device, grad=True)
        h, kept, read = torch.ones(4, device=device), [], []
        for _ in range(50):
            h = torch.tanh(w @ h)
            kept.append(h.logsumexp(0))
            read.append(kept[-1].item())
        torch.stack(kept).sum().backward()
        return w.grad, torch.tensor(read)

    assert_same(program)


ODD = {
    "all are -inf": [-math.inf] * 3,
    "inf": [math.inf, 1.0, 0.0],
    "two are inf": [math.inf, math.inf, 0.0],
    "one is -inf": [-math.inf, 1.0, 2.0],
    "nan": [math.nan, 1.0, 2.0],
    "large": [1000.0, 1000.0, 999.0],
    "small": [-1000.0, -1001.0, -1000.0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("numbers", ODD.values(), ids=ODD)
def test_logsumexp(numbers, dtype):
    def program(device):
        x = torch.tensor([numbers, [0.5, 0.25, 2.0]], dtype=dtype).to(device).requires_grad_()
        found = []
        for dims in (-1, 0, (0, 1)):
            for keep in (False, True):
                y = x.logsumexp(dims, keepdim=keep)
                found += [y, *torch.autograd.grad(y.sum(), [x])]
        return found

    assert_same(program)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)], ids=str)
def test_logsumexp_of_few(shape):
    def program(device):
        x = normal(*shape, device=device, grad=True)
        y = x.logsumexp(0)
        y.sum().backward()
        return y, x.grad

    assert_same(program)


def test_logsumexp_is_a_step():
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        before = made_nodes()
        y = (x * 2).logsumexp((0, 1))
        y.backward()
        return y, x.grad, made_nodes() - before, (x * 2).logsumexp(1).grad_fn.name()

    assert_same(program)


def test_second_derivative_of_logsumexp():
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        (g,) = torch.autograd.grad((x * 2).logsumexp(1).square().sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)

    assert_same(program)


@pytest.mark.parametrize("written", ["operand", "result", "neither"])
def test_writes_before_backward(written):
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        a = x * 2
        y = a.logsumexp(1)
        with torch.no_grad():
            {"operand": a, "result": y, "neither": x}[written].mul_(2)
        try:
            return torch.autograd.grad(y.sum(), [x])
        except RuntimeError:
            return "may not be written"

    assert_same(program)


@pytest.mark.parametrize("join", [torch.stack, lambda t: torch.cat([x.reshape(1) for x in t])])
def test_equal_gradients_of_scalars_share_no_memory(join, device):
    """On the CPU they do, and each backward after the first adds 3 to each, as torch's nodes do."""

    def gradients(device):
        numbers = [torch.tensor(k, device=device, requires_grad=True) for k in (1.0, 2.0, 3.0)]
        for _ in range(3):
            join(numbers).sum().backward()
        return [x.grad.item() for x in numbers]

    ours = torch.lazuli.config.light_autograd
    assert gradients(device) == ([3, 3, 3] if ours else gradients("cpu"))
