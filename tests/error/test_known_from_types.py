"""Mistakes that shapes, dtypes and devices show: eager's class and message, at eager's line."""

import pytest
import torch
from differential import assert_same_error, normal, tensor

F = torch.nn.functional


def n(*shape):
    return lambda d: normal(*shape, device=d)


def ids(*values):
    return lambda d: tensor(list(values), d)


def grad(*shape):
    return lambda d: normal(*shape, device=d, grad=True)


MISTAKES = {
    # sizes that do not fit
    "add": (lambda a, b: a + b, n(3), n(4)),
    "add_": (lambda a, b: a.add_(b), n(3), n(2, 3)),
    "addcmul": (lambda a, b: torch.addcmul(a, b, b), n(3), n(4)),
    "where": (lambda a, b: torch.where(a > 0, a, b), n(3), n(4)),
    "mm": (lambda a, b: torch.mm(a, b), n(2, 3), n(2, 3)),
    "mm of vectors": (lambda a, b: torch.mm(a, b), n(3), n(3, 2)),
    "matmul": (lambda a, b: a @ b, n(2, 3), n(4, 5)),
    "matmul of batches": (lambda a, b: a @ b, n(2, 3, 4), n(3, 4, 5)),
    "bmm": (lambda a, b: torch.bmm(a, b), n(2, 3, 4), n(2, 5, 6)),
    "addmm": (lambda a, b: torch.addmm(a, a, b), n(2, 3), n(2, 3)),
    "dot": (lambda a, b: a.dot(b), n(2), n(3)),
    "mv": (lambda a, b: a.mv(b), n(2, 3), n(2)),
    "linear": (lambda a, b: F.linear(a, b), n(2, 3), n(4, 5)),
    "conv2d channels": (lambda a, b: F.conv2d(a, b), n(1, 3, 8, 8), n(4, 2, 3, 3)),
    "conv2d kernel": (lambda a, b: F.conv2d(a, b), n(1, 3, 2, 2), n(4, 3, 5, 5)),
    "conv2d rank": (lambda a, b: F.conv2d(a, b), n(3, 8), n(4, 3, 3, 3)),
    "cat": (lambda a, b: torch.cat([a, b]), n(2, 3), n(2, 4)),
    "stack": (lambda a, b: torch.stack([a, b]), n(2, 3), n(2, 4)),
    "copy_": (lambda a, b: a.copy_(b), n(2, 3), n(4)),
    "view": (lambda a: a.view(5), n(2, 3)),
    "view of transpose": (lambda a: a.t().view(6), n(2, 3)),
    "reshape": (lambda a: a.reshape(4, 2), n(2, 3)),
    "expand": (lambda a: a.expand(4, 4), n(2, 3)),
    "permute": (lambda a: a.permute(0, 0), n(2, 3)),
    "transpose": (lambda a: a.transpose(0, 2), n(2, 3)),
    "squeeze": (lambda a: a.squeeze(3), n(2, 3)),
    "unsqueeze": (lambda a: a.unsqueeze(5), n(2, 3)),
    "narrow": (lambda a: a.narrow(0, 1, 5), n(2, 3)),
    "select": (lambda a: a[2], n(2, 3)),
    "too many indices": (lambda a: a[0, 0, 0], n(2, 3)),
    "split": (lambda a: a.split([1, 2]), n(2, 3)),
    "chunk": (lambda a: a.chunk(0), n(2, 3)),
    "as_strided": (lambda a: a.as_strided((9, 9), (9, 1)), n(2, 3)),
    "unfold": (lambda a: a.unfold(0, 5, 1), n(2, 3)),
    "sum": (lambda a: a.sum(2), n(2, 3)),
    "sum twice": (lambda a: a.sum((0, 0)), n(2, 3)),
    "softmax": (lambda a: a.softmax(2), n(2, 3)),
    "softmax's backward": (
        lambda a, b: torch.ops.aten._softmax_backward_data(a, b.exp(), 0, torch.float32),
        n(5),
        n(6),
    ),
    "addr": (lambda a, b, c: torch.addr(a, b, c), n(5, 11), n(5), n(10)),
    "cumsum": (lambda a: a.cumsum(2), n(2, 3)),
    "layer_norm": (lambda a: F.layer_norm(a, (4,)), n(2, 3)),
    "group_norm": (lambda a: F.group_norm(a, 2), n(2, 3)),
    "batch_norm": (lambda a: F.batch_norm(a, None, None, training=True), n(1, 3)),
    "max_pool2d": (lambda a: F.max_pool2d(a, 5), n(1, 1, 3, 3)),
    "max_pool2d with a last window": (
        lambda a: F.max_pool2d(a, 5, stride=4, ceil_mode=True, dilation=(3, 4)),
        n(1, 2, 5, 8),
    ),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 5), n(1, 1, 3, 3)),
    "cross_entropy": (lambda a, b: F.cross_entropy(a, b), n(2, 3), ids(1, 2, 0)),
    "nll_loss": (lambda a, b: F.nll_loss(a, b), n(2, 3), ids(1)),
    "mse_loss": (lambda a, b: F.mse_loss(a, b), n(2, 3), n(4, 5)),
    "gather": (lambda a, b: a.gather(0, b), n(2, 3), ids(0, 1)),
    "index_select": (lambda a, b: a.index_select(0, b.view(1, 2)), n(2, 3), ids(0, 1)),
    "mask": (lambda a: a[torch.ones(3, dtype=torch.bool, device=a.device)], n(2, 3)),
    "attention": (
        lambda a, b: F.scaled_dot_product_attention(a, b, b),
        n(1, 2, 3, 4),
        n(1, 2, 3, 5),
    ),
    "pad": (lambda a: F.pad(a, (1, 1, 1, 1, 1, 1)), n(2, 3)),
    "pad below nothing": (lambda a: F.pad(a, (-2, -2)), n(2, 3)),
    "zeros": (lambda a: a.new_zeros(-1), n(2)),
    "repeat": (lambda a: a.repeat(2), n(2, 3)),
    "diagonal": (lambda a: a.diagonal(0, 0, 0), n(2, 3)),
    "arange": (lambda a: torch.arange(0, 5, -1, device=a.device), n(1)),
    "backward of many": (lambda a: (a * 2).backward(), grad(2)),
    "gradient of another shape": (
        lambda a: (a * 2).backward(torch.ones(3, device=a.device)),
        grad(2),
    ),
    # dtypes that do not fit
    "mm dtypes": (lambda a, b: a @ b.double(), n(2, 2), n(2, 2)),
    "linear dtypes": (lambda a, b: F.linear(a, b.bfloat16()), n(2, 3), n(2, 3)),
    "conv dtypes": (lambda a, b: F.conv2d(a, b.double()), n(1, 1, 4, 4), n(1, 1, 2, 2)),
    "sub of bool": (lambda a: (a > 0) - (a > 0), n(3)),
    "neg of bool": (lambda a: -(a > 0), n(3)),
    "and of floats": (lambda a: a & a, n(3)),
    "not of floats": (lambda a: ~a, n(3)),
    "shift of floats": (lambda a: a << 1, n(3)),
    "div_ of integers": (lambda a: a.div_(2), ids(1, 2)),
    "add_ of integers": (lambda a: a.add_(0.5), ids(1, 2)),
    "alpha": (lambda a: torch.add(a, a, alpha=1.5), ids(1, 2)),
    "mean of integers": (lambda a: a.mean(), ids(1, 2)),
    "std of integers": (lambda a: a.std(), ids(1, 2)),
    "softmax of integers": (lambda a: a.softmax(0), ids(1, 2)),
    "gelu of integers": (lambda a: F.gelu(a), ids(1, 2)),
    "integer power": (lambda a: a**-1, ids(1, 2)),
    "embedding index": (lambda a: F.embedding(a, a.view(1, -1)), n(3)),
    "gather index": (lambda a: a.gather(0, a), n(3)),
    "index": (lambda a: a[a], n(3)),
    "masked_fill mask": (lambda a: a.masked_fill(a, 0), n(3)),
    "where condition": (lambda a: torch.where(a, a, a), n(3)),
    "cross_entropy target": (lambda a: F.cross_entropy(a, torch.ones(2, device=a.device)), n(2, 3)),
    "lerp": (lambda a: torch.lerp(a, a.double(), 0.5), n(3)),
    "requires_grad of integers": (lambda a: a.requires_grad_(), ids(1, 2)),
    "argmax of bool": (lambda a: (a > 0).argmax(), n(3)),
    "logical in place": (lambda a: a.logical_and_("x"), n(3)),
    # autograd
    "in place on a leaf": (lambda a: a.add_(1), grad(3)),
    "in place on a view of a leaf": (lambda a: a[0].zero_(), grad(3)),
    "in place on unbound views": (lambda a: (a * 1).unbind()[0].add_(1), grad(3)),
    "backward twice": (lambda a: [(y := a.exp().sum()).backward(), y.backward()], grad(3)),
    "no grad_fn": (lambda a: a.sum().backward(), n(3)),
    "unused": (lambda a, b: torch.autograd.grad(a.sum(), b), grad(3), grad(3)),
    "out with grad": (lambda a: torch.exp(a, out=torch.empty_like(a)), grad(3)),
    "numpy of grad": (lambda a: a.cpu().numpy(), grad(3)),
    "deepcopy": (lambda a: __import__("copy").deepcopy(a * 2), grad(3)),
    "optimizer of a result": (lambda a: torch.optim.SGD([a * 2], lr=0.1), grad(3)),
    # arguments
    "unknown keyword": (lambda a: a.sum(nothing=1), n(3)),
    "missing argument": (lambda a: torch.mm(a), n(3)),
    "wrong type": (lambda a: a + "x", n(3)),
    "dropout": (lambda a: F.dropout(a, 1.5), n(3)),
    "clamp": (lambda a: a.clamp(), n(3)),
    "rounding": (lambda a: torch.div(a, a, rounding_mode="up"), n(3)),
    "reduction": (lambda a: F.mse_loss(a, a, reduction="most"), n(3)),
    "gelu approximation": (lambda a: F.gelu(a, approximate="best"), n(3)),
    "bernoulli": (lambda a: a.bernoulli_(2.0), n(3)),
    "normal": (lambda a: a.normal_(0, -1), n(3)),
    "uniform": (lambda a: a.uniform_(2, 1), n(3)),
    "stride of conv": (lambda a, b: F.conv2d(a, b, stride=0), n(1, 1, 4, 4), n(1, 1, 2, 2)),
    "groups of conv": (lambda a, b: F.conv2d(a, b, groups=2), n(1, 3, 4, 4), n(2, 1, 2, 2)),
    "cat of nothing": (lambda a: torch.cat([]), n(3)),
    "item of many": (lambda a: a.item(), n(3)),
    "truth of many": (lambda a: bool(a), n(3)),
    "quantile": (lambda a: a.quantile(2.0), n(3)),
    "topk": (lambda a: a.topk(5), n(3)),
    "multinomial": (lambda a: torch.multinomial(a.abs(), 5), n(3)),
    "cholesky": (lambda a: torch.linalg.cholesky(a), n(2, 3)),
    "inverse": (lambda a: torch.linalg.inv(a), n(2, 3)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name):
    function, *makers = MISTAKES[name]
    inputs = {}

    def fail(device):
        inputs[device] = [make(device) for make in makers]
        function(*inputs[device])

    assert_same_error(fail)
    torch.lazuli.synchronize()  # nothing of the failed op was left behind
