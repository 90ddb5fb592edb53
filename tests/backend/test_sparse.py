"""Sparse tensors: of the device, by way of torch's kernels for the host."""

import pytest
import torch
from differential import assert_same, assert_same_error, normal

LAYOUTS = ["to_sparse", "to_sparse_csr", "to_sparse_csc"]
DENSE = torch.tensor([[0.0, 2, 0], [3, 0, 0], [0, 0, -1]])


@pytest.mark.parametrize("convert", LAYOUTS)
def test_conversions(convert, device):
    here = getattr(DENSE.to(device), convert)()
    there = getattr(DENSE, convert)().to(device)
    for s in (here, there):
        assert s.layout == getattr(DENSE, convert)().layout
        assert s.device.type == device
        assert s.to_dense().device.type == device
        assert torch.equal(s.to_dense().cpu(), DENSE)
        assert torch.equal(s.cpu().to_dense(), DENSE)


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_csr"])
def test_products_and_their_gradients(convert):
    def compute(device):
        s = getattr(DENSE.to(device), convert)().requires_grad_()
        x = normal(3, 2, device=device, grad=True)
        y = s @ x
        y.square().sum().backward()
        return y, x.grad, s.grad.to_dense()

    assert_same(compute)


def test_in_place_and_coalescing():
    def compute(device):
        indices = torch.tensor([[0, 0, 1], [1, 1, 0]], device=device)
        s = torch.sparse_coo_tensor(indices, torch.ones(3, device=device), (2, 2))
        before = s.is_coalesced()
        s = s.coalesce()
        s.mul_(3)
        s.add_(s)
        return before, s.is_coalesced(), s._nnz(), s.coalesce().indices(), s.to_dense()

    assert_same(compute)


def test_sparse_gradients_reach_the_optimizer():
    def compute(device):
        weight = normal(5, 3, device=device, grad=True)
        optimizer = torch.optim.SparseAdam([weight], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            index = torch.tensor([1, 3, 1], device=device)
            torch.nn.functional.embedding(index, weight, sparse=True).square().sum().backward()
            layout = weight.grad.layout
            optimizer.step()
        return str(layout), weight

    assert_same(compute)


def test_what_cpu_refuses():
    assert_same_error(lambda device: DENSE.to(device).to_sparse() + DENSE.to(device))


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax"])
def test_reducing_products(reduce):
    def compute(device):
        s = DENSE.to(device).to_sparse_csr().requires_grad_()
        x = normal(3, 2, device=device, grad=True)
        y = torch.sparse.mm(s, x, reduce)
        y.square().sum().backward()
        return y, x.grad, s.grad.to_dense()

    assert_same(compute)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_sparse_gradients_of_bags(mode):
    def compute(device):
        weight = normal(5, 3, device=device, grad=True)
        index = torch.tensor([1, 3, 1, 4], device=device)
        bags = torch.tensor([0, 3], device=device)
        y = torch.nn.functional.embedding_bag(index, weight, bags, mode=mode, sparse=True)
        y.square().sum().backward()
        return str(weight.grad.layout), weight.grad.device.type == device, weight.grad.to_dense()

    assert_same(compute)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_one_more_dimension(dim, recwarn):
    def compute(device):
        dense = torch.cat([DENSE, DENSE], 1).to(device)
        hybrid = torch.stack([dense, dense], -1).to_sparse(2)
        return [s.unsqueeze(dim).to_dense() for s in (dense.to_sparse(), hybrid)]

    assert_same(compute)
    assert not [w for w in recwarn if "view operator" in str(w.message)]


def test_a_sparse_product_of_a_sparse_and_a_dense_matrix(device):
    s, x = DENSE.to_sparse(), torch.arange(12.0).view(3, 4)
    there, y = s.to(device), x.to(device)
    assert torch.equal(torch.smm(there, y).to_dense().cpu(), torch.smm(s, x).to_dense())
    addend = torch.eye(3, 4).to_sparse()
    expected = torch.sspaddmm(addend, s, x, beta=2, alpha=3).to_dense()
    found = torch.sspaddmm(addend.to(device), there, y, beta=2, alpha=3)
    assert found.is_sparse
    assert found.device.type == device
    assert torch.equal(found.to_dense().cpu(), expected)
    assert "aten::sspaddmm" in str(torch.lazuli.explain())


@pytest.mark.parametrize("part", [lambda w: w[0:2], lambda w: w.unsqueeze(0)[0]])
@pytest.mark.parametrize("device", ["cpu", "lazuli"])
def test_a_part_takes_no_sparse_gradient_in_eagers_words(part, device):
    weight = torch.ones(4, 5, requires_grad=True, device=device)
    places = torch.zeros(2, 2, dtype=torch.int64, device=device)
    y = torch.nn.functional.embedding(places, part(weight * 1), sparse=True)
    with pytest.raises(NotImplementedError, match=r"aten::(as_strided|select_backward)"):
        y.sum().backward()


def entries(device, dtype=torch.float32):
    indices = torch.tensor([[0, 1, 1, 2], [2, 0, 2, 1]], device=device)
    return torch.sparse_coo_tensor(indices, normal(4, device=device, dtype=dtype), (3, 3))


# Torch's kernels read the device's memory where it lies. What they made must not follow what is
# written there later.
MADE = {
    "product": lambda s, x: torch.sparse.mm(s, x),
    "product with a vector": lambda s, x: s.mv(x[:, 0]),
    "product of what lies transposed": lambda s, x: torch.sparse.mm(s, x.t()),
    "product of a conjugate": lambda s, x: torch.sparse.mm(s.to(torch.complex64), x.mul(1j).conj()),
    "product of two": lambda s, x: torch.sparse.mm(s, s.coalesce()),
    "sum": lambda s, x: s + s.coalesce(),
    "dense sum": lambda s, x: x + s,
    "coalesced": lambda s, x: s.coalesce(),
    "coalesced twice": lambda s, x: s.coalesce().coalesce(),
    "dense": lambda s, x: s.to_dense(),
    "compressed": lambda s, x: s.to_sparse_csr(),
    "compressed and back": lambda s, x: s.to_sparse_csr().to_sparse(),
    "masked": lambda s, x: x.sparse_mask(s.coalesce()),
    "absolute": lambda s, x: s.coalesce().abs(),
    "scaled": lambda s, x: s * 2,
    "times dense": lambda s, x: s.coalesce() * x,
    "reduced": lambda s, x: torch.sparse.sum(s, 1),
    "softmax": lambda s, x: torch.sparse.softmax(s, 1),
    "joined": lambda s, x: torch.cat([s, s]),
    "selected": lambda s, x: s.index_select(0, torch.tensor([2, 1]).to(x.device)),
}


@pytest.mark.parametrize("name", MADE)
def test_what_was_made_stays_when_operands_are_written(name):
    def compute(device):
        s, x = entries(device), normal(3, 3, device=device)
        x = x * 2  # pending
        made = MADE[name](s, x)
        s._values().zero_()
        x.zero_()
        parts = [made]
        if made.layout is torch.sparse_coo:
            parts = [made._indices(), made._values(), made.is_coalesced()]
        if made.layout is torch.sparse_csr:
            parts = [made.crow_indices(), made.col_indices(), made.values()]
        return *parts, tuple(made.shape), str(made.dtype)

    assert_same(compute)


WRITES = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:4],
    "transposed": lambda x: x[:3].t(),
    "a column apart": lambda x: x.view(-1)[::2][:9].view(3, 3),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_dense_tensor_to_which_a_sparse_one_is_added_in_place(name):
    def compute(device):
        base = normal(6, 3, device=device)
        before, shared = base.detach(), base.clone()
        target = WRITES[name](base) if name != "whole" else base[:3].clone()
        held = target * 1
        results = []
        for step in range(3):
            written = target.add_(entries(device), alpha=step + 1)
            results += [written is target, target._version, target.clone(), target @ target]
        return *results, base, before, shared, held

    assert_same(compute)


def test_a_sparse_tensor_of_what_it_is_added_to():
    def compute(device):
        x = normal(4, device=device)
        indices = torch.tensor([[2, 0, 3, 1]], device=device)
        x.add_(torch.sparse_coo_tensor(indices, x, (4,)))
        return x, x._version

    assert_same(compute)


def test_an_out_of_another_size():
    def compute(device):
        out = torch.empty(0, device=device)
        torch.addmm(
            normal(3, 2, device=device), entries(device), normal(3, 2, device=device), out=out
        )
        return out, tuple(out.shape)

    assert_same(compute)


def test_errors_of_sparse_kernels():
    assert_same_error(lambda device: torch.sparse.mm(entries(device), normal(4, 2, device=device)))
    assert_same_error(lambda device: normal(2, 2, device=device).add_(entries(device)))
