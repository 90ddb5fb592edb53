"""Masks as indices: read once, and from then on an index of where they are true."""

import ctypes

import pytest
import torch
from differential import NATIVE_TYPES, Double, assert_same, assert_same_error, normal, tensor

# Bytes as masks: eager warns, and so do we.
pytestmark = pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")


def mask_of(*shape, device, share=0.4):
    return (torch.rand(shape) < share).to(device)


def as_many(mask, size):
    return torch.arange(size, device=mask.device) < mask.sum()


# An operand of (4, 3, 5), and what a mask of this shape makes of it.
PICKS = {
    "all": lambda x, m: x[m],
    "rows": lambda x, m: x[m[:, 0, 0]],
    "two dimensions": lambda x, m: x[m[..., 0]],
    "behind a slice": lambda x, m: x[:, m[0]],
    "the last": lambda x, m: x[..., m[0, 0]],
    "in the middle": lambda x, m: x[:, m[0, :, 0]],
    "beside an index": lambda x, m: x[m[..., 0], 1],
    "behind an index": lambda x, m: x[2, m[0]],
    "beside a list": lambda x, m: x[m[:, 0, 0], :, [1]],
    "beside a column": lambda x, m: x[m[..., 0], torch.tensor([[1], [3]]).to(x.device)],
    "two masks": lambda x, m: x[m[:, 0, 0], :, as_many(m[:, 0, 0], 5)],
    "transposed": lambda x, m: x.transpose(0, 2)[m.transpose(0, 2)],
    "in another order": lambda x, m: x.transpose(1, 2).contiguous().transpose(1, 2)[m],
    "rows in another order": lambda x, m: x.transpose(0, 2).contiguous().transpose(0, 2)[m[..., 0]],
    "a window": lambda x, m: x[1:, :, ::2][m[1:, :, ::2]],
    "expanded": lambda x, m: x[:, :1].expand(4, 3, 5)[m],
    "expanded mask": lambda x, m: x[m[:1].expand(4, 3, 5)],
    "channels last": lambda x, m: x[None].to(memory_format=torch.channels_last)[m[None]],
    "of size one": lambda x, m: x[:, :1][m[:, :1]],
    "none": lambda x, m: x[m & ~m],
    "each": lambda x, m: x[m | ~m],
    "twice": lambda x, m: torch.stack([x[m], x.flip(0)[m]]),
    "bytes": lambda x, m: x[m.to(torch.uint8)],
    "bytes, rows": lambda x, m: x[(m[:, 0, 0] * 3).to(torch.uint8)],
    "on the host": lambda x, m: x[m.cpu()],
    "a number": lambda x, m: x[m[0, 0, 0]],
    "masked_select": lambda x, m: x.masked_select(m),
    "masked_select, rows": lambda x, m: x.masked_select(m[:, :1, :1]),
    "masked_select, one row": lambda x, m: x[:1, :1].masked_select(m),
    "masked_select, none": lambda x, m: x.masked_select(m & ~m),
    "masked_select, numbers": lambda x, m: x[0, 0, 0].masked_select(m[0, 0, 0]),
    "masked_select, transposed": lambda x, m: x.transpose(0, 1).masked_select(m.transpose(0, 1)),
    "sum": lambda x, m: x[m].sum(),
    "where": lambda x, m: x[torch.where(m)],
    "nonzero": lambda x, m: x[m.nonzero(as_tuple=True)[0]],
}
ROUNDED = {"sum", "masked_select, one row"}  # torch adds in another order
EACH = pytest.mark.parametrize("name", PICKS)


def bits(name):
    return {"rtol": 1e-6, "atol": 1e-6} if name in ROUNDED else {"rtol": 0, "atol": 0}


@EACH
@pytest.mark.parametrize("dtype", NATIVE_TYPES, ids=str)
def test_reads(name, dtype):
    def program(device):
        x = (torch.randn(4, 3, 5) * 9).to(dtype).to(device)
        return PICKS[name](x, mask_of(4, 3, 5, device=device))

    assert_same(program, **({} if name == "sum" else bits(name)))


@EACH
@pytest.mark.parametrize("unplanned", ["never", "auto"])
def test_gradients(name, unplanned, device):
    def program(device):
        x = normal(4, 3, 5, device=device, grad=True)
        y = PICKS[name](x * 2, mask_of(4, 3, 5, device=device))
        of = y.grad_fn.name()
        y.backward(torch.linspace(-0.5, 1.5, y.numel()).reshape(y.shape).to(device))
        return of, y, x.grad, x.grad.signbit()

    with torch.lazuli.config.patch(unplanned=unplanned):
        assert_same(program, **bits(name))


@EACH
def test_second_derivative(name):
    def program(device):
        x = normal(4, 3, 5, device=device, grad=True)
        y = PICKS[name](x * x, mask_of(4, 3, 5, device=device))
        (g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)

    assert_same(program, ignore=("stride",), rtol=1e-5, atol=1e-5)


@EACH
def test_between_other_nodes_and_reads(name):
    def program(device):
        x = normal(4, 3, 5, device=device, grad=True)
        y = Double.apply(PICKS[name](Double.apply(x).exp(), mask_of(4, 3, 5, device=device)).tanh())
        y.sum().item()
        y.sum().backward()
        return x.grad

    assert_same(program, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(PICKS) - {"a number"}))  # torch.func reads none
@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_transforms(name, transform):
    def program(device):
        m = mask_of(4, 3, 5, device=device)
        x, t = normal(4, 3, 5, device=device), normal(4, 3, 5, device=device)
        if transform == "jvp":
            return torch.func.jvp(lambda x: PICKS[name](x, m), (x,), (t,))
        return torch.func.grad(lambda x: PICKS[name](x, m).sum())(x)

    assert_same(program, ignore=("stride",), rtol=1e-6, atol=1e-6)


# A mask of (4, 3, 5), and what is written where it is.
WRITES = {
    "one for each": lambda x, m, v: x.__setitem__(m, v.flatten()[: m.sum()]),
    "rows": lambda x, m, v: x.__setitem__(m[..., 0], v[0, :1].expand(int(m[..., 0].sum()), 5)),
    "a row": lambda x, m, v: x.__setitem__(m[..., 0], v[0, 0]),
    "a row in a list": lambda x, m, v: x.__setitem__(m[..., 0], v[0, :1]),
    "a matrix": lambda x, m, v: x.__setitem__(m[:, 0, 0], v[0]),
    "a column": lambda x, m, v: x.__setitem__(m[:, 0, 0], v[0, :, :1]),
    "behind a slice": lambda x, m, v: x.__setitem__((slice(None), m[0]), v[:, 0, :1]),
    "before and behind": lambda x, m, v: x.__setitem__((slice(None), m[0, :, 0]), v[:, :1]),
    "a number": lambda x, m, v: x.__setitem__(m, 3),
    "an element": lambda x, m, v: x.__setitem__(m, v[1, 1, 1]),
    "beside an index": lambda x, m, v: x.__setitem__((m[..., 0], 2), v[0, 0, 0]),
    "bytes": lambda x, m, v: x.__setitem__(m[..., 0].to(torch.uint8), v[0, 0]),
    "bytes, one for each": lambda x, m, v: x.__setitem__(m.to(torch.uint8), v.flatten()[: m.sum()]),
    "on the host": lambda x, m, v: x.__setitem__(m.cpu(), v.flatten()[: m.sum()]),
    "nothing": lambda x, m, v: x.__setitem__(m & ~m, v.flatten()[:0]),
    "a row nowhere": lambda x, m, v: x.__setitem__((m & ~m)[..., 0], v[0, 0]),
    "added": lambda x, m, v: x.__setitem__(m, x[m] + v[m]),
    "accumulated": lambda x, m, v: x.index_put_((m,), v.flatten()[: m.sum()], accumulate=True),
    "accumulated rows": lambda x, m, v: x.index_put_((m[..., 0],), v[0, 0], accumulate=True),
    "what is copied": lambda x, m, v: x.copy_(x.index_put((m,), v.flatten()[: m.sum()])),
    "a window": lambda x, m, v: x[1:].__setitem__(m[1:], v.flatten()[: m[1:].sum()]),
    "every other": lambda x, m, v: x[..., ::2].__setitem__(m[..., ::2], v[0, 0, 0]),
    "transposed": lambda x, m, v: x.transpose(0, 2).__setitem__(
        m.transpose(0, 2)[..., 0], v[0, 0, :4]
    ),
    "masked_fill": lambda x, m, v: x.masked_fill_(m, 2),
}


@pytest.mark.parametrize("dtype", NATIVE_TYPES, ids=str)
@pytest.mark.parametrize("name", WRITES)
def test_writes(name, dtype):
    def program(device):
        x, v = ((torch.randn(4, 3, 5) * 9).to(dtype).to(device) for _ in range(2))
        view, version = x[:2], x._version
        WRITES[name](x, mask_of(4, 3, 5, device=device), v)
        return x, view, x._version - version

    assert_same(program, rtol=0, atol=0)


@pytest.mark.parametrize("name", WRITES)
def test_gradients_of_writes(name):
    def program(device):
        x, v = (normal(4, 3, 5, device=device, grad=True) for _ in range(2))
        y = x * 2
        WRITES[name](y, mask_of(4, 3, 5, device=device), v * 3)
        (y * torch.linspace(-0.5, 1.5, 60).reshape(4, 3, 5).to(device)).sum().backward()
        return y, x.grad, v.grad

    assert_same(program, rtol=1e-6, atol=1e-6)


def syncs(counters):
    return sum(counters()["syncs"].values())


def test_a_mask_is_read_once(counters):
    x, y = (normal(8, 5, device="lazuli", grad=True) for _ in range(2))
    m = x.detach()[:, 0] > 0
    z = (x * 2)[m] - y[m]
    z[z > 100] = 0  # another mask, but one number
    (z.square().sum() + x.masked_select(m[:, None]).sum() + m.nonzero().sum()).backward()
    torch.where(m), x[m], m.nonzero()
    assert syncs(counters) == 1
    assert not counters()["external_calls"]


def test_no_node_is_made(counters):
    x = normal(8, 5, device="lazuli", grad=True)
    (x.tanh()[x > 0].exp().sum() + x.tanh().masked_select(x > 0).sum()).backward()
    assert counters()["autograd_nodes"] == 0


def test_what_fits_any_mask_reads_nothing(counters):
    x, m = torch.zeros(4, 3, 5).to("lazuli"), mask_of(4, 3, 5, device="lazuli") | False
    x[m[..., 0]] = torch.arange(5.0).to("lazuli") + 1
    x[:, m[0]] = torch.ones(4, 1).to("lazuli") * 2
    x[m] = x.sum()
    assert syncs(counters) == 0
    assert not counters()["external_calls"]


REWRITES = {
    "in place": lambda m: m.logical_not_(),
    "through a view": lambda m: m[1:].fill_(True),
    "copied to": lambda m: m.copy_(torch.ones(4, 3, dtype=torch.bool)),
    "as a result": lambda m: torch.ge(torch.zeros_like(m), torch.zeros_like(m), out=m),
    "by data": lambda m: m.data.zero_(),
    "new data": lambda m: setattr(m, "data", ~m),
    "set": lambda m: m.set_(torch.ones_like(m)),
    "resized": lambda m: m.resize_(5, 3).resize_(4, 3).fill_(True),
    "by torch's kernel": lambda m: torch.isin(torch.arange(12).view(4, 3).to(m.device), 3, out=m),
    "as bytes": lambda m: m.view(torch.uint8).bitwise_xor_(1),
    "by its address": lambda m: ctypes.memset(m.data_ptr(), 1, 6),
}


@pytest.mark.parametrize("rewrite", REWRITES.values(), ids=REWRITES)
@pytest.mark.parametrize("pending", [False, True])
def test_a_mask_that_was_written_is_read_again(rewrite, pending):
    def program(device):
        x, m = normal(4, 3, device=device), mask_of(4, 3, device=device)
        m = m | (x > 1) if pending else m
        before = x[m], m.nonzero()
        rewrite(m)
        return before, x[m], m.nonzero(), x.masked_select(m)

    assert_same(program, rtol=0, atol=0)


@pytest.mark.parametrize("written", ["operand", "mask", "result", "nothing"])
@pytest.mark.parametrize("select", [False, True])
def test_writes_before_backward(written, select):
    def program(device):
        x = normal(3, 4, device=device, grad=True)
        a, m = x * 2, mask_of(3, 4, device=device)
        y = a.masked_select(m) if select else a[m]
        with torch.no_grad():
            {"operand": a, "mask": m, "result": y, "nothing": x}[written].zero_()
        try:
            return torch.autograd.grad(y.sum(), [x])
        except RuntimeError:
            return "may not be written"

    assert_same(program)


def test_what_is_found_belongs_to_the_caller():
    def program(device):
        x, m = normal(4, device=device), tensor([True, False, True, True], device)
        found, (rows,) = m.nonzero(), torch.where(m)
        found.zero_(), rows.add_(5)
        return found, rows, m.nonzero(), x[m], torch.where(m)

    assert_same(program, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", NATIVE_TYPES, ids=str)
@pytest.mark.parametrize("shape", [(7,), (1,), (3, 4), (2, 1, 3), (0,), (0, 3), ()], ids=str)
def test_nonzero(shape, dtype):
    def program(device):
        x = torch.randint(-1, 2, shape).abs().to(dtype).to(device)
        return (
            x.nonzero(),
            x.nonzero(as_tuple=True),
            (x * 0).nonzero(),
            x.t().nonzero() if x.dim() == 2 else 0,
        )

    assert_same(program)


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_large_masks(share, dtype):
    def program(device):
        m = (
            ((torch.rand(397, 1103) < share) * torch.randint(1, 256, (397, 1103)))
            .to(dtype)
            .to(device)
        )
        return m.nonzero(), m[:, 3:].nonzero(), torch.ones(397, 1103).to(device)[m.bool()].sum()

    assert_same(program)


def test_positions_too_many_to_be_kept():
    def program(device):
        x = normal(3000, device=device, grad=True)
        m = torch.arange(3000, device=device)[:, None] >= torch.arange(3000, device=device)
        y = x.expand(3000, 3000)[m | m.t()]
        (y * 2).sum().backward()
        return y[-5:], x.grad, m[:5].nonzero()

    assert_same(program, rtol=1e-6, atol=1e-6)


def test_bytes_are_warned_of():
    def program(device):
        x, m = normal(3, 2, device=device), tensor([1, 0, 2], device, torch.uint8)
        texts = []
        for step in (
            lambda: x[m],
            lambda: x.__setitem__(m, x[0] * 1),
            lambda: x.__setitem__(m, x[:2] * 1),
        ):
            with pytest.warns(UserWarning, match="uint8") as seen:
                step()
            texts += [str(w.message).partition(" (Triggered")[0] for w in seen]
        return texts

    assert_same(program)


ERRORS = {
    "shape": lambda x, m: x[m[:3]],
    "too many": lambda x, m: x[m, m],
    "two masks": lambda x, m: x[m[:, 0], m[0] | True],
    "values": lambda x, m: x.__setitem__(m, x.flatten()[: m.sum() + 1]),
    "a part of itself": lambda x, m: x.__setitem__(m, x.flatten()[: m.sum()]),
    "a row of itself": lambda x, m: x.__setitem__(m[:, 0] | True, x[0]),
    "by itself": lambda x, m: m.__setitem__(m, m.flatten()[: m.sum()]),
    "accumulated by itself": lambda x, m: (u := m.byte()).index_put_((u,), u[u], accumulate=True),
    "values, none": lambda x, m: x.__setitem__(m & ~m, x.flatten()[:2]),
    "types": lambda x, m: x.__setitem__(m, x.double()[m]),
    "bytes, a number": lambda x, m: x.__setitem__(m.to(torch.uint8), 2),
    "bytes, an element": lambda x, m: x.__setitem__(m.to(torch.uint8), x[0, 0] * 1),
    "select": lambda x, m: x.masked_select(x),
    "select, shape": lambda x, m: x.masked_select(m[:3]),
}


@pytest.mark.parametrize("make", ERRORS.values(), ids=ERRORS)
def test_errors(make):
    assert_same_error(lambda d: make(normal(4, 3, device=d), tensor([[1, 0, 1]] * 4, d) > 0))


@pytest.mark.parametrize("unplanned", ["never", "auto", "always"])
def test_another_number_in_each_step(unplanned, device):
    """A loop of training that matches by masks on two scales."""

    def program(device):
        ws = [normal(n, 6, device=device, grad=True) for n in (40, 12)]
        optimizer = torch.optim.SGD(ws, 0.1, momentum=0.9)
        losses = []
        for _ in range(12):
            optimizer.zero_grad()
            loss = 0
            for w in ws:
                target = normal(*w.shape, device=device)
                hit = target[:, 0] > 0.3
                loss = loss + (w[hit][:, :4].sigmoid() - target[hit][:, :4]).square().sum()
                loss = loss + w[~hit, 4].square().sum() + (w * 2)[target > 1.5].sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses), ws

    with torch.lazuli.config.patch(unplanned=unplanned):
        assert_same(program, rtol=1e-5, atol=1e-5)


def test_compiled_graphs_do_not_keep_what_was_found(device):
    """A graph whose sizes follow from a mask."""

    def f(x, m):
        return x[m] * 2, m.nonzero() + 1, torch.where(m, x, 0)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(f, backend="lazuli")
        for share in (0.2, 0.8, 0.5, 0.5):
            x, m = normal(6, 4, device=device), mask_of(6, 4, device=device, share=share)
            x[m]
            for actual, expected in zip(compiled(x, m), f(x.cpu(), m.cpu()), strict=True):
                assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1000, 46341, 65537])
def test_coordinates(size):
    """They are found without a division, in each dimension and up to the last position."""

    def program(device):
        x = torch.zeros(max(1, 70000 // size), size, 3, dtype=torch.bool)
        at = torch.randint(0, x.numel(), (50,))
        x.view(-1)[torch.cat([at, torch.tensor([0, size - 1, 3 * size - 1, x.numel() - 1])])] = True
        x = x.to(device)
        return x.nonzero(), x.permute(1, 2, 0).nonzero(), torch.where(x)

    assert_same(program)
