"""Errors that differed from eager's: what random programs found."""

import pytest
import torch
import torch.nn.functional as F
from differential import assert_same, assert_same_error


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wrong", ["input", "target"])
def test_probabilities_that_are_none(device, dtype, wrong):
    def run(device):
        given = {"input": torch.full((2, 2), 0.5), "target": torch.full((2, 2), 0.5)}
        given[wrong] = given[wrong] + 1
        F.binary_cross_entropy(**{k: v.to(device, dtype) for k, v in given.items()}).item()

    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match=f"all elements of {wrong} should be between"):
            run(where)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_class_of_an_index_error(device, dim):
    def run(device):
        x = torch.ones(2, 3, 4).to(device)
        x.index_select(dim, torch.tensor([9]).to(device)).sum().item()

    errors = []
    for where in ("cpu", device):
        with pytest.raises((RuntimeError, IndexError)) as error:
            run(where)
        errors.append(error.type)
    assert errors[0] is errors[1]


def test_memory_that_is_no_whole_number_of_elements(device):
    def run(device):
        memory = torch.arange(21, dtype=torch.uint8).to(device)
        x = torch.zeros(1, dtype=torch.long).to(device)
        x.set_(memory.untyped_storage(), 0, (2,), (1,))
        y = x + 1
        x[1] = 5
        return y, x.clone(), memory

    assert_same(run)


def raised_by(function, device) -> str:
    try:
        function(device)
        torch.lazuli.synchronize()
    except Exception as error:  # any class: it is compared
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


REFUSED = {
    "integers to a negative power": lambda d: torch.ones(1, dtype=torch.int64, device=d).pow_(-1),
    "an odd offset": lambda d: torch.view_as_complex(torch.ones(7, device=d)[1:].view(3, 2)),
    "another type, softplus": lambda d: F.softplus(
        torch.ones(1, device=d), out=torch.ones((), dtype=torch.float64, device=d)
    ),
    "another type, elu": lambda d: torch.ops.aten.elu.out(
        torch.ones(1, device=d), out=torch.ones(1, dtype=torch.float64, device=d)
    ),
    "a weight with a gradient": lambda d: F.nll_loss(
        torch.ones(2, 3, device=d),
        torch.zeros(2, dtype=torch.int64, device=d),
        weight=torch.ones(3, device=d, requires_grad=True),
    ),
    "a running mean with a gradient": lambda d: F.batch_norm(
        torch.ones(2, 3, device=d),
        torch.zeros(3, device=d, requires_grad=True),
        torch.ones(3, device=d),
        torch.ones(3, device=d),
        torch.ones(3, device=d),
    ),
    "both overlap and shape": lambda d: (
        torch.ones(1, device=d).expand(3, 1).copy_(torch.ones(2, 3, 1, device=d))
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses_is_refused_in_its_words(name):
    expected = raised_by(REFUSED[name], "cpu")
    assert expected
    assert raised_by(REFUSED[name], "lazuli") == expected


@pytest.mark.parametrize("q", [-0.01, 1.01, float("nan"), [0.5, 2.0]])
@pytest.mark.parametrize("function", [torch.quantile, torch.nanquantile])
def test_quantiles_out_of_range_are_an_error(function, q, planned):
    x, q = torch.arange(5.0, device="lazuli"), torch.tensor(q, device="lazuli")
    out = torch.empty(0, device="lazuli")
    for y in (function(x, q), function(x, q, out=out)):
        with pytest.raises(RuntimeError, match="values must be in the range"):
            y.cpu()


def test_nothing_may_be_concatenated_into_itself():
    x = torch.empty(0, device="lazuli")
    assert torch.cat([x, torch.ones(1, device="lazuli")[:0]], out=x).shape == (0,)


@pytest.mark.parametrize("write", [torch.Tensor.copy_, torch.Tensor.add_])
def test_overlap_is_refused_before_shapes_are_looked_at(write):
    def run(device):
        x = torch.ones(16, device=device)
        write(x.narrow(0, 0, 10), x)

    assert_same_error(run)


def test_sizes_in_the_error_of_a_mask(device):
    def run(device):
        torch.ones(2, device=device).masked_fill(torch.ones(5, 5, device=device) > 0, 1)

    assert_same_error(run)


@pytest.mark.parametrize("format", [torch.channels_last, torch.channels_last_3d])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_a_memory_format_is_for_as_many_dimensions(device, format, shape):
    def run(device):
        x = torch.ones(shape, device=device)
        made = []
        for make in (x.half, x.clone, x.contiguous, lambda **k: torch.zeros_like(x, **k)):
            try:
                made.append(torch.tensor(make(memory_format=format).stride()))
            except RuntimeError as error:
                made.append(str(error))
        return made

    assert_same(run)


@pytest.mark.parametrize("given", [{"dilation": 0}, {"kernel_size": 9}, {"padding": 3}])
def test_errors_of_a_pooling_in_one_dimension(device, given):
    def run(device):
        with pytest.raises(RuntimeError) as raised:
            torch.nn.functional.max_pool1d(
                torch.ones(2, 1, 3, device=device), **{"kernel_size": 2, **given}
            )
        return str(raised.value)

    assert_same(run)


def raised_class(run, device) -> type | None:
    try:
        run(device)
    except Exception as error:  # whatever it is
        return type(error)
    return None


WRITES_TO_NOTHING = {
    "scatter": lambda x, i, y: x.scatter(0, i, y),
    "scatter of a number": lambda x, i, y: x.scatter(0, i, 2.0),
    "scatter_": lambda x, i, y: x.scatter_(0, i, y),
    "scatter_add": lambda x, i, y: x.scatter_add(0, i, y),
    "scatter_add_": lambda x, i, y: x.scatter_add_(0, i, y),
    "index_add": lambda x, i, y: x.index_add(0, i, y),
    "index_copy": lambda x, i, y: x.index_copy(0, i, y),
    "index_fill": lambda x, i, y: x.index_fill(0, i, 2.0),
    "index_put": lambda x, i, y: x.index_put((i,), y),
    "gather": lambda x, i, y: x.gather(0, i),
    "take": lambda x, i, y: x.take(i),
    "index_select": lambda x, i, y: x.index_select(0, i),
    "embedding": lambda x, i, y: F.embedding(i, x.view(0, 3)),
}


@pytest.mark.parametrize("call", WRITES_TO_NOTHING)
def test_indices_into_nothing(device, call):
    def run(device):
        x, i = torch.ones(0, device=device), torch.zeros(2, dtype=torch.int64, device=device)
        WRITES_TO_NOTHING[call](x, i, torch.ones(2, device=device)).sum().item()

    expected, actual = (raised_class(run, where) for where in ("cpu", device))
    assert expected is actual


@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((3, 4), 0), ((3, 4), 1), ((3, 4, 2), 1)])
def test_class_of_an_index_add_error(device, shape, dim):
    def run(device):
        x, index = torch.ones(shape).to(device), torch.tensor([9]).to(device)
        x.index_add_(dim, index, torch.ones(shape).narrow(dim, 0, 1).to(device)).sum().item()

    expected = raised_class(run, "cpu")
    assert expected is not None
    assert raised_class(run, device) is expected
