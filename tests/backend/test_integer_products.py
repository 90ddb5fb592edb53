"""Products of integers: they wrap around, as eager's do."""

import pytest
import torch
from differential import assert_same, assert_same_error, tensor

TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def integers(*shape, dtype, device):
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, shape, dtype=dtype).to(device)


PRODUCTS = {
    "mm": ((7, 19), (19, 33), torch.mm),
    "one row": ((1, 190), (190, 400), torch.mm),
    "large": ((65, 129), (129, 70), torch.mm),
    "transposed": ((19, 7), (33, 19), lambda a, b: a.t() @ b.t()),
    "bmm": ((3, 7, 19), (3, 19, 5), torch.bmm),
    "matmul": ((2, 3, 7, 19), (19, 5), torch.matmul),
    "mv": ((7, 19), (19,), torch.mv),
    "dot": ((19,), (19,), torch.dot),
    "empty": ((3, 0), (0, 5), torch.mm),
    "addmm": ((7, 7), (7, 7), lambda a, b: torch.addmm(b, a, b, beta=3, alpha=-2)),
    "addmm in place": ((7, 7), (7, 7), lambda a, b: a.clone().addmm_(a, b, beta=2)),
    "factors that are rounded": (
        (7, 7),
        (7, 7),
        lambda a, b: torch.addmm(b, a, b, beta=1.5, alpha=2.5),
    ),
    "baddbmm": ((2, 7, 7), (2, 7, 7), lambda a, b: torch.baddbmm(b, a, b, alpha=5)),
    "out": ((7, 19), (19, 33), lambda a, b: torch.mm(a, b, out=a.new_empty(0))),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("at_once", [True, False])
def test_product(name, dtype, at_once, counters):
    a, b, function = PRODUCTS[name]

    def run(device):
        with torch.lazuli.config.patch(tiers="plans" if at_once else "auto"):
            x, y = (integers(*shape, dtype=dtype, device=device) for shape in (a, b))
            return function(x, y)

    assert_same(run, rtol=0, atol=0)
    assert name == "factors that are rounded" or not torch.lazuli.metrics()["external_calls"]


def test_errors():
    def run(device, function):
        return function(*(tensor([[1, 2], [3, 4]], device) for _ in range(2)))

    for function in (
        lambda a, b: torch.addmm(a.to(torch.int8), a.to(torch.int8), b.to(torch.int8), alpha=300),
        lambda a, b: torch.addmm(a.int(), a.int(), b.int(), beta=2**40),
        lambda a, b: torch.addmm(a.to(torch.uint16), a.to(torch.uint16), b.to(torch.uint16)),
        lambda a, b: torch.mm(a, b.int()),
        lambda a, b: torch.mm(a, b[:1]),
        lambda a, b: torch._int_mm(a, b),
    ):
        assert_same_error(lambda device, function=function: run(device, function))


# Added up in int32: the extremes, too, which pairs of products in int16 would lose.
@pytest.mark.parametrize("rows", [1, 4, 5, 40])
@pytest.mark.parametrize("left", [torch.int8, torch.uint8])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("at_once", [True, False])
def test_bytes(rows, left, turned, at_once, counters):
    def run(device):
        a = integers(rows, 512, dtype=left, device=device)
        b = integers(512, 160, dtype=torch.int8, device=device)
        if turned:
            b = integers(160, 512, dtype=torch.int8, device=device).t()
        a[0], b[:, 0] = torch.iinfo(left).max, -128
        with torch.lazuli.config.patch(tiers="plans" if at_once else "auto"):
            signed = [torch._int_mm(a, b)] if left == torch.int8 else []
            return [*signed, a.int() @ b.int(), torch.mm(a.int() - 3, b.int())]

    assert_same(run, rtol=0, atol=0, ignore=["stride"])
    assert not torch.lazuli.metrics()["external_calls"]


def test_one_weight_for_signed_and_unsigned_bytes(planned_at_once):
    """What is packed of it for the ones is not what the others read."""

    def run(device):
        w = integers(1024, 256, dtype=torch.int8, device=device)
        signed = integers(64, 1024, dtype=torch.int8, device=device)
        unsigned = integers(64, 1024, dtype=torch.uint8, device=device)
        results = []
        for _ in range(4):
            results.append((unsigned.int() @ w.int()).cpu())
            results.append(torch._int_mm(signed, w).cpu())
        return results

    assert_same(run, rtol=0, atol=0)
