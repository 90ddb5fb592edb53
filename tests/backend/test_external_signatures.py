"""Two calls of one external operator that differ in one thing: the second is learned anew."""

import functools
import inspect

import pytest
import torch
from differential import assert_same, normal


def calls_of(name):
    """The operator has no kernel of ours, or its test says nothing."""

    def decorate(test):
        @functools.wraps(test)
        def checked(device, counters):
            test(device) if inspect.signature(test).parameters else test()
            calls = counters()["external_calls"]
            assert any(name in call for call in calls), calls

        del checked.__wrapped__  # whose signature pytest would take
        return checked

    return decorate


def complex_normal(*shape, device):
    return torch.complex(torch.randn(shape), torch.randn(shape)).to(device)


@calls_of("mm")
def test_conjugated_operand(device):
    def products(device):
        a, b = complex_normal(3, 3, device=device), complex_normal(3, 3, device=device)
        return a @ b, a.conj() @ b, a @ b.conj(), a.conj() @ b.conj(), a @ b

    assert_same(products)


@calls_of("cdist")
def test_other_strides():
    def distances(device):
        x, y = normal(4, 4, device=device), normal(4, 4, device=device)
        return [torch.cdist(a, b) for a in (x, x.t()) for b in (y, y.t())]

    assert_same(distances)


@calls_of("cdist")
def test_another_window():
    def distances(device):
        x, y = normal(12, 4, device=device), normal(4, 4, device=device)
        return [torch.cdist(x[first : first + 4], y) for first in (0, 4, 8, 5)]

    assert_same(distances)


@calls_of("cdist")
def test_one_tensor_twice():
    def distances(device):
        x, y = normal(4, 4, device=device), normal(4, 4, device=device)
        return torch.cdist(x, y), torch.cdist(x, x), torch.cdist(y, x), torch.cdist(y, y)

    assert_same(distances)


@calls_of("igamma")
@torch.inference_mode()  # otherwise torch's own kernels for autograd see to it
def test_what_is_written_is_returned(device):
    """Though it lies where the operand lies, it is another tensor."""
    x, a = torch.rand(4).to(device), torch.rand(4).to(device)
    view = x[:]
    igamma = torch.ops.aten.igamma.out
    assert igamma(a, x, out=x) is x
    assert igamma(a, x, out=view) is view
    assert igamma(a, view, out=x) is x
    assert x.isfinite().all().item()


@calls_of("igamma")
def test_another_number_of_the_host():
    def compute(device):
        x = normal(4, device=device).abs()
        numbers = [torch.tensor(n) for n in (2.0, 3.0, 2.0)] + [
            torch.tensor(3.0, dtype=torch.double)
        ]
        return [torch.igamma(n, x) for n in numbers]

    assert_same(compute)


@calls_of("searchsorted")
def test_another_flag():
    def search(device):
        x, v = torch.arange(5.0).to(device), torch.tensor([1.0, 2.5, 4.0]).to(device)
        return [
            torch.searchsorted(x, v, right=right, out_int32=small)
            for right in (False, True)
            for small in (False, True)
        ]

    assert_same(search)


@calls_of("polygamma")
def test_another_default_type():
    def compute(device):
        x = torch.arange(1, 5).to(device)
        results = []
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            try:
                results.append(torch.polygamma(1, x))
            finally:
                torch.set_default_dtype(torch.float32)
        return results

    assert_same(compute)


DRAWS = {
    "poisson": lambda x: torch.poisson(x * 10),
    "multinomial": lambda x: torch.multinomial(x, 12, replacement=True),
    "_standard_gamma": torch._standard_gamma,
    "bernoulli": lambda x: torch.bernoulli(x / 4),  # ours, but for eager's numbers
    "uniform": lambda x: x.clone().uniform_(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_drawn_at_once(name, device, counters):
    """Not when they are read: a seed that is set meanwhile has no say."""
    x = torch.full((16,), 2.0, device=device)

    def draw(seed):
        torch.manual_seed(seed)
        return DRAWS[name](x)

    with torch.lazuli.config.patch(random="eager"):
        read_at_once = [draw(seed).cpu() for seed in (0, 1)]
        read_later = [draw(seed) for seed in (0, 1)]
    torch.manual_seed(2)
    for now, later in zip(read_at_once, read_later, strict=True):
        assert torch.equal(now, later.cpu())
    assert any(name in call for call in counters()["external_calls"])


@calls_of("frexp")
def test_two_storages_are_written():
    def split(device):
        x = normal(8, device=device)
        mantissa, exponent = (
            torch.empty(8, device=device),
            torch.empty(8, dtype=torch.int32, device=device),
        )
        torch.frexp(x, out=(mantissa, exponent))
        return mantissa, exponent

    assert_same(split)


@calls_of("qr")
def test_two_storages_of_one_type_are_written():
    def decompose(device):
        x = normal(4, 4, device=device)
        q, r = torch.empty(4, 4, device=device), torch.empty(4, 4, device=device)
        torch.linalg.qr(x, out=(q, r))
        return q @ r, r.tril(-1), torch.linalg.qr(x)[1].tril(-1)

    assert_same(decompose)


@calls_of("mode")
def test_two_results():
    assert_same(lambda device: tuple(torch.mode(normal(4, 8, device=device).round())))


@calls_of("cdist")
def test_operands_that_lie_within_other_values():
    """Copies that only the call reads: it is shown where their elements lie."""

    def distances(device):
        x, y = normal(4, 6, device=device) * 2, normal(5, 4, device=device)
        return (
            torch.cdist(x.t().contiguous(), y),
            torch.cdist(x[:, 1:5].contiguous(), y),
            torch.cdist(x[1:3, :4].contiguous(), y),
            x,
        )

    assert_same(distances)


LIBRARY = torch.library.Library("lazuli_test_signatures", "FRAGMENT")
CALLED = []


def operator(name, schema, meta):
    """One of the CPU, of somebody's own, whose calls are counted."""

    def decorate(kernel):
        def counted(*arguments):
            CALLED.append(name)
            return kernel(*arguments)

        LIBRARY.define(name + schema)
        LIBRARY.impl(name, counted, "CPU")
        LIBRARY.impl(name, meta, "Meta")
        return getattr(torch.ops.lazuli_test_signatures, name)

    return decorate


@operator("turned", "(Tensor x) -> Tensor", torch.empty_like)
def turned(x):
    return (x * 2).t().contiguous().t()


@operator("same", "(Tensor x) -> Tensor", torch.empty_like)
def same(x):
    return x


@operator("inc", "(Tensor(a!) x) -> ()", lambda x: None)
def inc(x):
    x.add_(1)


@operator("shorter", "(Tensor x) -> Tensor", torch.empty_like)
def shorter(x):
    return x[1:].clone()


@operator("log", "(Tensor x) -> ()", lambda x: None)
def log(x):
    pass


@operator("grow", "(Tensor(a!) x) -> Tensor", lambda x: x.new_empty(2))
def grow(x):
    x.resize_(5).fill_(7)
    return x[:2] * 2


@operator("foo_", "(Tensor(a!) x) -> Tensor(a!)", lambda x: x)
def foo_(x):
    return x.mul_(2)


@pytest.mark.parametrize("call", [turned, same, shorter, log, grow, foo_])
def test_an_operator_of_somebodys_own_whose_meta_kernel_is_wrong(call):
    def program(device):
        CALLED.clear()
        x, found = torch.arange(6.0).reshape(2, 3).to(device), []
        for _ in range(3):
            y = call(x * 1 if call is grow else x)
            inc(x[1])
            found.append(x.clone())
            if y is not None:
                y.add_(1)
                found += [y.clone(), y.stride()]
        torch.lazuli.synchronize()
        return found, list(CALLED)

    (actual, calls), (expected, eagers) = program("lazuli"), program("cpu")
    assert calls == eagers
    for a, e in zip(actual, expected, strict=True):
        assert torch.equal(a.cpu(), e) if isinstance(e, torch.Tensor) else a == e


KEPT = {}


@operator("kept", "(Tensor x) -> Tensor", torch.empty_like)
def kept(x):
    return KEPT.setdefault(len(CALLED) > 1, x * 2)


def test_what_an_operator_keeps_is_not_written_over():
    CALLED.clear()
    x = torch.arange(4, device="lazuli").to(torch.float32)
    for _ in range(5):
        y = kept(x).add_(1)
        torch.lazuli.synchronize()
        y.add_(1)
        assert y.tolist() == [2, 4, 6, 8]
    assert all(t.tolist() == [0, 2, 4, 6] for t in KEPT.values())


@operator("same_if_positive", "(Tensor x) -> Tensor", torch.empty_like)
def same_if_positive(x):
    return x if x[0] > 0 else x + 0


def test_what_an_operator_returns_of_its_operands_memory_once_is_copied(planned):
    same_if_positive(torch.full((4,), -1.0, device="lazuli"))
    x = torch.arange(1, 5, device="lazuli").to(torch.float32)
    torch.lazuli.synchronize()
    y = same_if_positive(x)
    torch.lazuli.synchronize()
    torch.nn.functional.logsigmoid(y, out=y)
    assert x.tolist() == [1, 2, 3, 4]
    torch.testing.assert_close(y.cpu(), torch.nn.functional.logsigmoid(torch.arange(1, 5.0)))
