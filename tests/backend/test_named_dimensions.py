"""Names of dimensions follow the rules of eager: carried on, refused where they do not fit."""

import pytest
import torch
import versions
from differential import assert_same, assert_same_error, normal

pytestmark = [pytest.mark.filterwarnings("ignore:Named tensors"), versions.names_dimensions]


def named(*shape, device, names="NCW"):
    return normal(*shape, device=device).refine_names(*names)


def told(*results):
    return [(t.names, t.rename(None)) for t in results]


def test_elementwise():
    def compute(device):
        x, y = named(2, 3, 4, device=device), named(3, 4, device=device, names="CW")
        return told(
            x + x,
            x * 2,
            x + y,
            x.relu(),
            x > 0,
            -x,
            x.masked_fill(x > 0, 1.0),
            torch.dropout(x, 0.5, False),
        )

    assert_same(compute)


def test_complex_sums():
    def compute(device):
        x = named(2, 3, 4, device=device).to(torch.complex64)
        return told(x + x, x - x, x.clone().add_(x))

    assert_same(compute)


def test_reductions_and_scans():
    def compute(device):
        x = named(2, 3, 4, device=device)
        one = [x.sum("C"), x.mean(1), x.std("W"), x.prod("N"), x.logsumexp("W"), x.cumsum("W")]
        return told(*one, *x.max("C"), *x.median("C"), x.softmax("C"), x.sum("C", keepdim=True))

    assert_same(compute)


def test_products():
    def compute(device):
        a, b = named(2, 3, device=device, names="AB"), named(3, 4, device=device, names="CD")
        return told(
            torch.mm(a, b), torch.matmul(named(2, 3, 3, device=device), b), torch.cat([a, a], "B")
        )

    assert_same(compute)


def test_in_place_and_out():
    def compute(device):
        x, out = named(2, 3, 4, device=device), torch.empty(2, 4, device=device)
        y, plain = x.clone(), normal(2, 3, 4, device=device)
        y.add_(x).mul_(2).cumsum_("W")
        plain.add_(x)
        return told(
            y,
            plain,
            torch.sum(x, "C", out=out),
            torch.sigmoid(x, out=torch.empty(0, device=device)),
        )

    assert_same(compute)


def test_gradients():
    def compute(device):
        x = normal(2, 3, device=device, grad=True)
        y = x.refine_names("A", "B")
        z = (y * y).sum("B")
        z.sum().backward()
        return [*told(z.detach()), x.grad]

    assert_same(compute)


def test_names_that_do_not_fit():
    def another(device):
        return named(2, 3, 4, device=device, names="ABD")

    assert_same_error(lambda device: named(2, 3, 4, device=device) + another(device))
    assert_same_error(lambda device: named(2, 3, 4, device=device).mul_(another(device)))
    assert_same_error(lambda device: named(2, 3, 4, device=device).sum("D"))
    assert_same_error(lambda device: named(2, 3, 4, device=device).amax(1))
