"""Views whose autograd nodes are made on demand: torch's rules for views hold all the same."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal
from test_nodes_on_demand import names

VIEWS = {
    "view": lambda x: x.view(4, 6),
    "flatten": lambda x: x.flatten(1),
    "unsafe_view": lambda x: torch.ops.aten._unsafe_view(x, [4, 6]),
    "reshape": lambda x: x.transpose(0, 1).reshape(-1),
    "alias": lambda x: torch.ops.aten.alias(x),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:, :1].squeeze(),
    "squeeze a dimension": lambda x: x[:, :1].squeeze(1),
    "squeeze dimensions": lambda x: x[:1, :1].squeeze((0, -2)),
    "expand": lambda x: x[:, :1].expand(5, 2, 3, 4),
    "expand by name": lambda x: x.unsqueeze(0).expand_as(torch.ones(3, 2, 3, 4, device=x.device)),
    "t": lambda x: x[0].t(),
    "t of one dimension": lambda x: x[0, 0].t(),
    "transpose": lambda x: x.transpose(-1, 0),
    "mT": lambda x: x.mT,
    "permute": lambda x: x.permute(2, 0, -2),
    "movedim": lambda x: x.movedim(0, 2),
    "slice": lambda x: x[:, 1:, 1:3],
    "slice from behind": lambda x: x[:, -2:-1],
    "slice with steps": lambda x: x[:, ::2, 1::3],
    "empty slice": lambda x: x[:, 3:],
    "narrow": lambda x: x.narrow(2, 1, 2),
    "select": lambda x: x[1],
    "select from behind": lambda x: x.select(-1, -2),
    "split": lambda x: x.split(2, 1),
    "split by sizes": lambda x: x.split([1, 3], -1),
    "chunk": lambda x: x.chunk(2, 2),
    "part of a split": lambda x: x.split(1, 1)[1],
    "unbind": lambda x: x.unbind(1),
    "part of what is unbound": lambda x: x.unbind(-1)[2],
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "one view of another": lambda x: x.view(6, 4).t()[1:].split(3)[0].unsqueeze(0),
}
SOURCES = {"leaf": lambda x: x, "result": lambda x: x * 2, "view": lambda x: (x * 2)[:]}


def listed(views):
    return [views] if isinstance(views, torch.Tensor) else list(views)


def weighted(views):
    """A sum to differentiate in which every element counts differently."""
    total = 0
    for i, v in enumerate(listed(views)):
        weights = torch.arange(1.0, v.numel() + 1).reshape(v.shape).to(v.device)
        total = total + (v * v * weights).sum() * (i + 1)
    return total


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_gradients(view):
    def differentiate(device):
        x = normal(2, 3, 4, device=device, grad=True)
        weighted(view(x * 2)).backward()
        first = x.grad
        x.grad = None
        weighted(view(x)).backward()
        return first, x.grad

    assert_same(differentiate, ignore=("stride",), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_what_they_say_of_themselves(view, source):
    def look(device):
        x = source(normal(2, 3, 4, device=device, grad=True))
        views = listed(view(x))
        before = [(v._is_view(), v._base is not None, v.is_leaf, v.requires_grad) for v in views]
        numbers = [(v.output_nr, v._version) for v in views]
        return before, numbers, [names(v.grad_fn) for v in views], [v._base is x for v in views]

    assert_same(look)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_second_derivatives(view):
    def differentiate(device):
        x = normal(2, 3, 4, device=device, grad=True)
        (g,) = torch.autograd.grad(weighted(view(x.sin())), x, create_graph=True)
        (g * g).sum().backward()
        return g.detach(), x.grad

    assert_same(differentiate, ignore=("stride",), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["view", "expand", "permute", "slice", "select", "split"])
def test_batched_gradients(name):
    def differentiate(device):
        x = normal(2, 3, 4, device=device, grad=True)
        return torch.func.jacrev(lambda x: torch.stack([v.sum() for v in listed(VIEWS[name](x))]))(
            x.detach()
        )

    assert_same(differentiate, ignore=("stride",))


@pytest.mark.parametrize("ask", [False, True])
@pytest.mark.parametrize("name", ["view", "slice", "select", "transpose", "one view of another"])
def test_writing_to_the_base(name, ask):
    """A view that was made before has another history afterwards."""

    def differentiate(device):
        x = normal(2, 3, 4, device=device, grad=True)
        y = x * 2
        v = VIEWS[name](y)
        early = v.sin()
        seen = names(v.grad_fn) if ask else None
        y.mul_(3)
        late = v * 2
        return seen, torch.autograd.grad(late.sum() + y.sum(), x, retain_graph=True), early.detach()

    if name == "one view of another":
        assert_same_error(differentiate)
    else:
        assert_same(differentiate)


@pytest.mark.parametrize("ask", [False, True])
@pytest.mark.parametrize("name", ["view", "slice", "select", "transpose", "expand"])
def test_writing_to_a_view(name, ask):
    def differentiate(device):
        x = normal(2, 3, 4, device=device, grad=True)
        y = x * 2
        v, other = VIEWS[name](y), y.view(-1)
        if ask:
            assert v.grad_fn is not None
        v.mul_(3)
        total = (v * v).sum() + y.sum() + other.sum()
        total.backward()
        return x.grad, v.grad_fn.name(), y.grad_fn.name(), other.grad_fn.name()

    if name == "expand":
        assert_same_error(differentiate)
    else:
        assert_same(differentiate, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ask", [False, True])
@pytest.mark.parametrize("write", [lambda v: v.add_(1), lambda v: v.mul_(v), lambda v: v.zero_()])
@pytest.mark.parametrize("name", ["split", "unbind", "chunk"])
def test_parts_may_not_be_written(name, write, ask):
    def fail(device):
        part = VIEWS[name](normal(2, 3, 4, device=device, grad=True) * 2)[1]
        if ask:
            assert part.grad_fn is not None
        write(part.unsqueeze(0) if ask else part)

    assert_same_error(fail, RuntimeError)


def test_views_of_leaves_may_not_be_written():
    assert_same_error(lambda device: normal(3, device=device, grad=True).view(-1).add_(1))
    assert_same_error(lambda device: normal(3, device=device, grad=True)[1:].detach_())


def test_detached_and_without_gradients():
    def look(device):
        x = normal(4, device=device, grad=True)
        y = x * 2
        with torch.no_grad():
            v = y.view(2, 2)
        w = y.detach().view(2, 2)
        return [v.requires_grad, v.grad_fn is None, v._is_view(), w.requires_grad, w._is_view()]

    assert_same(look)


def test_hooks_on_views():
    def differentiate(device):
        x = normal(2, 3, 4, device=device, grad=True)
        y = x * 2
        v = y.view(6, 4)
        z = v.t() * v.detach().t()
        seen = []
        v.register_hook(lambda g: seen.append(g.clone()))
        v.retain_grad()
        z.sum().backward()
        return seen, v.grad, x.grad

    assert_same(differentiate, ignore=("stride",))


def test_views_under_other_roots():
    def differentiate(device):
        x = normal(2, 3, 4, device=device, grad=True)
        y = x * 2
        a = y.split(2, 1)[0]
        torch.autograd.backward([a, y[0, 0]], [torch.ones_like(a), torch.ones(4).to(device)])
        first = x.grad.clone()
        return first, torch.autograd.grad((x * 3).unbind(0)[1].sum(), x)

    assert_same(differentiate, ignore=("stride",))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_where_the_gradient_of_a_permuted_tensor_lies(order):
    """By torch's engine: in the order of the gradient that it is a view of, as in eager."""

    def run(device):
        x = normal(2, 3, 4, device=device).requires_grad_()
        y = x.permute(order)
        (gradient,) = torch.autograd.grad(y, x, normal(*y.shape, device=device))
        return gradient, gradient.stride()

    with torch.lazuli.config.patch(inline_backward=False):
        assert_same(run)
