"""Defects that random programs found, each as the smallest program that shows it."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from differential import Double, assert_same, assert_same_error, normal
from torch import nn


def test_bytes_of_a_range(device):
    """A range is computed where it is read: its bytes are not those of a range of another type."""

    def run(device):
        x = torch.arange(3, device=device).view(torch.float32)
        y = torch.full((3,), 7, dtype=torch.int32, device=device).view(torch.float32)
        z = torch.ones(3, device=device).view(torch.int32)
        return x * x, y * 1, z + 1

    assert_same(run)


def test_a_gradient_that_is_no_part_of_the_graph(device):
    def run(device):
        x = torch.ones(1, device=device).requires_grad_()
        y = Double.apply(x)
        (g,) = torch.autograd.grad(y * y, [x], create_graph=True)
        return torch.autograd.grad(y.mean(), [g], allow_unused=True)

    assert_same(run)


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


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"foreach": True}], ids=str)
def test_versions_of_what_an_optimizer_writes(device, optimizer, options):
    def run(device):
        net = nn.Linear(4, 3).to(device)
        steps = optimizer(net.parameters(), lr=0.1, **options)
        before = net.weight._version
        net(normal(2, 4, device=device)).sum().backward()
        steps.step()
        states = [t._version for t in steps.state[net.weight].values() if t is not None]
        return net.weight._version - before, states

    assert_same(run)


def test_backward_after_an_optimizer_wrote_what_it_needs(device):
    def run(device):
        net = nn.Linear(4, 3).to(device)
        optimizer = torch.optim.Adam(net.parameters())
        y = torch.tanh(net(normal(2, 4, device=device, grad=True)))
        y.sum().backward(retain_graph=True)
        optimizer.step()
        y.sum().backward()

    assert "modified by an inplace operation" in assert_same_error(run, RuntimeError)


def test_a_range_into_memory_of_another_shape(device):
    def run(device):
        out = torch.ones(2, 3).to(device)
        nothing = torch.ones(1, 0).to(device)
        torch.arange(6, out=out)
        torch.arange(1, 1, out=nothing)
        return out, nothing

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


def order_cases(d):
    x = torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).to(d)
    out = torch.ones(2, 10, 5, device=d)
    window = torch.ones(1, 5, 2, device=d).as_strided((2, 2), (1, 2))
    norm = torch.empty(0, device=d)
    F.normalize(x.as_strided((1, 1, 2, 2), (1, 1, 1, 2)), out=norm)
    image = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last).to(d)
    one = torch.ones(1, device=d)
    half = torch.full((5, 5), 0.5, device=d)
    dense = torch.ones(2, 2, 1, 2, device=d).as_strided((2, 2, 1, 2), (4, 1, 1, 2)).abs()
    c = torch.randn(4, 5, dtype=torch.complex64).to(d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # out is resized
        torch.sub(window, torch.ones((), device=d), out=out)
    return {
        "masked_fill": torch.masked_fill(x.mT, x.mT > 0, 1.0),
        "resized out": out,
        "normalize": norm,
        "bce": F.binary_cross_entropy_with_logits(one.expand(5, 5), x.mT.abs(), reduction="none"),
        "probabilities": F.binary_cross_entropy(half.mT, half, reduction="none"),
        "huber": F.huber_loss(half.as_strided((3, 3), (0, 2)).mT, x[:3, :3], reduction="none"),
        "dense but for one": F.max_unpool2d(dense, dense.long(), 1),
        "complex": F.conv1d(c, torch.ones(3, 2, 4, dtype=c.dtype, device=d).mT),
        "shuffled": F.pixel_shuffle(image, 2),
        "shuffled by one": F.pixel_shuffle(image, 1),
        "unshuffled": F.pixel_unshuffle(image, 2),
    }


def test_results_lie_in_memory_as_eagers_do():
    expected, actual = order_cases("cpu"), order_cases("lazuli")
    assert {k: x.stride() for k, x in actual.items()} == {
        k: x.stride() for k, x in expected.items()
    }


def test_a_shuffle_that_moves_nothing_is_no_view():
    x = torch.zeros(1, 4, 2, 2, device="lazuli")
    for function in (F.pixel_shuffle, F.pixel_unshuffle):
        function(x, 1).add_(1)
    F.pixel_unshuffle(x, 2).add_(1)
    dot = torch.zeros(1, 4, 1, 1, device="lazuli")
    F.pixel_shuffle(dot, 2).add_(1)
    assert x.sum().item() == dot.sum().item() == 0


def test_nothing_may_be_concatenated_into_itself():
    x = torch.empty(0, device="lazuli")
    assert torch.cat([x, torch.ones(1, device="lazuli")[:0]], out=x).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_range_downwards_begins_with_a_positive_zero(dtype):
    x = torch.arange(0, -8, -4, dtype=dtype, device="lazuli")
    assert not x.signbit()[0].item()
    assert (1 / x)[0].item() > 0


def test_torchs_kernels_read_what_lies_backwards():
    """The number that is repeated is found in memory only after the call has chosen its operand."""

    def run(device):
        x = normal(2, device=device).sum().reshape(1).repeat(5)
        out = torch.zeros(15, device=device)
        torch.cat((x, x.flip(0), x), out=out)
        return torch.special.airy_ai(x.flip(0)), out, x

    assert_same(run)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (1, 1, 1)])
@pytest.mark.parametrize("value", [2.9e-27, 1e30])
def test_the_norm_of_one_number_is_its_size(shape, value):
    """Its square would vanish or overflow."""

    def run(device):
        x = torch.full(shape, -value, device=device)
        dim = None if len(shape) < 2 else 1
        return torch.linalg.vector_norm(x, 2, dim) / value, torch._foreach_norm([x])[0] / value

    assert_same(run)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("order", [torch.inf, -torch.inf])
def test_the_largest_of_complex_numbers_has_all_of_the_gradient(dtype, order):
    """Its size, as the derivative finds it, must be the norm to the bit."""

    def run(device):
        results = []
        for _ in range(20):
            x = torch.randn(7, 5, dtype=dtype).to(device).requires_grad_()
            norm = torch.linalg.vector_norm(x, order)
            rows = torch.linalg.vector_norm(x, order, 1, dtype=dtype)
            results += [norm, rows, *torch.autograd.grad(norm + rows.real.sum(), x)]
        return [*results, torch.renorm(x, order, 0, 1.0) if order > 0 else x]

    assert_same(run)


@pytest.mark.parametrize("write", [torch.Tensor.copy_, torch.Tensor.add_])
def test_overlap_is_refused_before_shapes_are_looked_at(write):
    def run(device):
        x = torch.ones(16, device=device)
        write(x.narrow(0, 0, 10), x)

    assert_same_error(run)


@pytest.mark.parametrize("momentum", [0.0, 1e-3])
@pytest.mark.parametrize("norm", [F.batch_norm, F.instance_norm])
def test_running_statistics_hold_what_the_batchs_do_not(norm, momentum):
    """Its variance is beyond float16; a small part of it need not be."""

    def run(device):
        x = ((torch.arange(24).view(3, 2, 4) - 12) * 100).to(device, torch.float16)
        mean, var = (torch.tensor(v, dtype=x.dtype, device=device) for v in ([5.4, 6], [2.9, 9]))
        where = {"training": True} if norm is F.batch_norm else {"use_input_stats": True}
        norm(x, mean, var, momentum=momentum, **where)
        return mean, var

    assert_same(run)


def test_a_part_written_beside_a_gradient_of_it(device):
    """Both the gradient and what was written could lie in the old numbers' place."""

    def run(device):
        x = normal(3, device=device).requires_grad_()
        first, *_ = x
        (gradient,) = torch.autograd.grad(first * first, [x])
        with torch.no_grad():
            first.square_()
        return x, gradient

    assert_same(run)


CONVERSIONS = [
    (torch.bfloat16, torch.float16),
    (torch.float16, torch.int16),
    (torch.float32, torch.int32),
    (torch.uint8, torch.bool),
]


@pytest.mark.parametrize(("wide", "narrow"), CONVERSIONS)
def test_a_part_of_what_is_converted_in_place(device, wide, narrow):
    """The input dies, so that the result may lie in its place: but in other bytes."""

    def run(device):
        x = (torch.arange(6) / 4 + 1).to(wide).to(device)
        y = x.to(narrow)
        part = y.reshape(-1)[0:5]
        part.bitwise_xor_(True) if narrow == torch.bool else part.mul_(3)
        return y

    assert_same(run)


def test_strides_of_a_trigamma(device):
    def run(device):
        out = torch.ones(2, 5, 5, device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is resized
            torch.polygamma(1, normal(5, 5, device=device).mT + 9, out=out)
        assert out.stride() == (1, 5)
        return out

    assert_same(run)


def test_an_interpolation_into_another_type(device):
    def run(device):
        x = torch.ones(3, device=device)
        torch.lerp(x, x, x, out=torch.ones(3, dtype=torch.float64, device=device))

    assert_same_error(run)


def test_sizes_in_the_error_of_a_mask(device):
    def run(device):
        torch.ones(2, device=device).masked_fill(torch.ones(5, 5, device=device) > 0, 1)

    assert_same_error(run)


def test_complex_numbers_added_to_what_overlaps(device):
    def run(device):
        x = torch.ones(3, dtype=torch.complex64, device=device).expand(2, 3)
        x += torch.ones(2, device=device)

    assert "more than one element" in assert_same_error(run)


@pytest.mark.parametrize("shape", [(2, 16), (2, 4)])
def test_a_mask_subtracted_from_complex_numbers(device, shape):
    def run(device):
        x = torch.ones(2, 16, dtype=torch.complex64, device=device)
        x.sub_(torch.ones(shape, dtype=torch.bool, device=device))

    assert "with a bool tensor" in assert_same_error(run)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
@pytest.mark.parametrize("wide", [torch.float32, torch.int32, torch.complex64])
def test_copies_into_a_negated_view(device, dtype, wide):
    def run(device):
        x = torch.zeros(3, dtype=wide, device=device)
        torch._neg_view(x).copy_(torch.tensor([0, 1, 1], dtype=dtype).to(device))
        y = torch._neg_view(torch.tensor([0, 1, 2], dtype=wide, device=device))
        z = torch.zeros(3, dtype=torch.int8, device=device)
        return x, z if wide.is_complex else z.copy_(y)

    assert_same(run)


@pytest.mark.parametrize("source", [torch.uint8, torch.int64, torch.float32, torch.complex64])
@pytest.mark.parametrize("to", [torch.bool, torch.int64, torch.float32, torch.complex64])
def test_copies_of_a_negated_view(source, to):
    """They are negated as what they become, which may have no sign."""

    def run(device):
        x = torch.zeros(3, dtype=to, device=device)
        negated = torch._neg_view(torch.tensor([0, 1, 3], dtype=source, device=device))
        try:
            return x.copy_(negated)
        except NotImplementedError as error:
            return str(error)

    assert_same(run)


FUNCTIONS_OF_ALL = {
    "conv2d of the input": (F.conv2d, 0),
    "conv2d of the weight": (F.conv2d, 1),
    "conv2d of the bias": (F.conv2d, 2),
    "conv_transpose2d of the weight": (F.conv_transpose2d, 1),
    "max_pool2d": (lambda x, *_: F.max_pool2d(x, 2), 0),
    "avg_pool2d": (lambda x, *_: F.avg_pool2d(x, 2), 0),
    "adaptive_avg_pool2d": (lambda x, *_: F.adaptive_avg_pool2d(x, 2), 0),
}


@pytest.mark.parametrize("name", FUNCTIONS_OF_ALL)
@pytest.mark.parametrize("alone", [True, False])
def test_gradients_that_torch_counts_as_functions_of_all_operands(device, name, alone):
    """A penalty on a gradient that depends on nothing has no effect, and is no error."""
    function, which = FUNCTIONS_OF_ALL[name]

    def run(device):
        shapes = (1, 2, 4, 4), (2, 2, 2, 2), (2,)
        operands = [normal(*shape, device=device) for shape in shapes]
        for i, x in enumerate(operands):
            x.requires_grad_(i == which or not alone)
        (g,) = torch.autograd.grad(function(*operands).sum(), operands[which], create_graph=True)
        found = [g, torch.tensor([g.requires_grad, g.is_leaf])]
        if g.requires_grad:
            g.square().sum().backward()
            found += [torch.ones(()) if x.grad is None else x.grad for x in operands]
        return found

    assert_same(run)


def test_a_copy_between_two_negated_views(device):
    def run(device):
        x, y = torch.zeros(3, device=device), torch.arange(3.0).to(device)
        torch._neg_view(x).copy_(torch._neg_view(y))
        return x

    assert_same(run)


def test_lists_written_where_they_are_read(device):
    def run(device):
        x = torch.ones(4, device=device)
        torch._foreach_add_([x[1:]], [x[:-1]])

    assert_same_error(run)


def test_a_source_of_another_shape_with_as_many_elements(device):
    def run(device):
        index = torch.zeros(2, 3, dtype=torch.int64, device=device)
        torch.zeros(4, 4, device=device).scatter(0, index, torch.ones(3, 2, device=device))

    assert_same_error(run)


@pytest.mark.parametrize("count", [5, 7, 9])
def test_writes_through_a_wider_type(device, count):
    """The memory has bytes beyond those of the last wide number."""

    def run(device):
        x = torch.arange(count, dtype=torch.uint8).to(device)
        x[:4].view(torch.int32).fill_(7)
        return x

    assert_same(run)


def test_expm1_reads_its_result_in_backward(device):
    """So that its operand may be written before, as in eager."""

    def run(device):
        x = torch.linspace(-2, 2, 5).to(device).requires_grad_()
        operand = x * 1
        y = torch.expm1(operand)
        with torch.no_grad():
            operand.mul_(3)
        return torch.autograd.grad(y.sum(), x)

    assert_same(run)


@pytest.mark.parametrize("shape", [(), (1, 1), (1, 3), (3, 1)])
@pytest.mark.parametrize("name", ["sum", "mean", "nansum"])
def test_a_sum_of_one_zero_has_no_sign(device, name, shape):
    def run(device):
        x = torch.full(shape, -0.0, device=device)
        every_dims = [(), *((d,) for d in range(len(shape)))]
        return [torch.signbit(getattr(x, name)(*dims)) for dims in every_dims]

    assert_same(run)


def test_an_operand_of_another_type_is_walked_as_its_copy(device):
    """Which has its own strides where the operand's elements share memory."""

    def run(device):
        x = torch.arange(60, device=device).as_strided((1, 6, 3), (1, 0, 1))
        return torch.tensor((x / torch.ones(1, 6, 3, device=device)).stride())

    assert_same(run)


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


def test_a_flipped_window_is_given_to_torchs_kernel(device):
    """Which has no negative strides: what has ended the process."""

    def run(device):
        x = torch.linspace(1, 2, 5).to(device).reshape(5, 1).expand(5, 5, 5)
        loss = torch.nn.functional.mse_loss(torch.ones(5, device=device), x.reshape(-1)[87:92])
        return loss, torch.cumprod(x.flip(0), 0)

    assert_same(run)


@pytest.mark.parametrize("alpha", [0.5, 0.3, 2])
def test_a_product_of_half_precision_is_scaled_before_it_is_rounded(device, alpha):
    def run(device):
        a = torch.full((1, 4), 200.0, dtype=torch.float16, device=device)
        b = torch.full((4, 2), -100.0, dtype=torch.float16, device=device)
        bias = torch.ones(2, dtype=torch.float16, device=device)
        batches = torch.baddbmm(bias, a[None], b[None], alpha=alpha)
        return (
            torch.addmm(bias, a, b, alpha=alpha),
            batches,
            torch.addmv(bias, b.t(), a[0], alpha=alpha),
        )

    assert_same(run)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_where_a_pooling_in_one_dimension_lies(device, requires_grad):
    def run(device):
        x = torch.arange(36.0).to(device).as_strided((2, 2, 3), (6, 1, 2))
        y = torch.nn.functional.max_pool1d(x.requires_grad_(requires_grad), 2, padding=1)
        return y, torch.tensor(y.stride())

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


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_the_tangent_of_a_quantiles_share(device, name):
    def run(device):
        x, q = torch.tensor([3.0, 1.0, 2.0], device=device), torch.tensor([0.1, 0.7], device=device)
        with torch.autograd.forward_ad.dual_level():
            share = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
            return torch.autograd.forward_ad.unpack_dual(getattr(torch, name)(x, share)).tangent

    assert_same(run)


@pytest.mark.parametrize(
    "use",
    [lambda x: x * 1, lambda x: x.view(-1), lambda x: x.unsqueeze(0).lt(2), lambda x: x + x],
    ids=["product", "view", "comparison", "sum"],
)
def test_an_integer_that_has_a_history(device, use):
    """As a comparison in place gives it one: torch refuses to go on from there."""

    def run(device):
        x = torch.ones(2, dtype=torch.int64).to(device)
        x.lt_(torch.zeros(2, device=device, requires_grad=True))
        with pytest.raises(RuntimeError, match="Autograd not support dtype"):
            use(x)
        return x.requires_grad, x.tolist()

    assert_same(run)


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose3d"])
def test_a_complex_convolution_of_one_sample(device, name):
    """What it returns is a view, as of real numbers, which `detach_` refuses."""
    dims = int(name[-2])

    def run(device):
        x, w = (torch.randn((*c, *[4] * dims), dtype=torch.complex64) for c in ((2,), (2, 2)))
        y = getattr(F, name)(x.to(device), w.to(device))
        with pytest.raises(RuntimeError, match="detach views in-place"):
            y.detach_()
        return y, torch.tensor(y.stride())

    assert_same(run)
    for wrong in [(3, *[4] * dims), (2, 2, 2, *[4] * dims)]:
        assert_same_error(
            lambda d, shape=wrong: getattr(F, name)(
                torch.ones(shape, dtype=torch.complex64, device=d),
                torch.ones((2, 2, *[2] * dims), dtype=torch.complex64, device=d),
            )
        )


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("given", [{}, {"stride": 2}, {"dilation": 2}, {"stride": 3}], ids=str)
def test_an_output_padding_as_wide_as_the_stride(device, dims, given):
    """Eager takes one that is narrower than the stride or than the dilation."""

    def run(device, padding):
        x = normal(1, 2, *[4] * dims, device=device)
        w = normal(2, 3, *[2] * dims, device=device)
        convolve = getattr(F, f"conv_transpose{dims}d")
        return convolve(x, w, output_padding=padding, **given)

    widest = max(given.values(), default=1)
    assert_same(lambda device: run(device, widest - 1))
    assert_same_error(lambda device: run(device, widest), RuntimeError)


BATCH_NORM_TYPES = {
    "all as the input": {},
    "float32 beside 16 bits": {"x": torch.bfloat16, "w": torch.float32, "running": torch.float32},
    "statistics in double precision": {"running": torch.float64},
    "weights of 16 bits": {"w": torch.bfloat16},
    "an input in double precision": {"x": torch.float64},
    "only some in float32": {"x": torch.float16, "w": torch.float16},
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("types", BATCH_NORM_TYPES)
def test_types_of_a_batch_norm(device, types, training):
    """Eager takes parameters of its input's type, or of float32 where the input has 16 bits."""
    given = BATCH_NORM_TYPES[types]

    def run(device):
        x = normal(3, 2, 4, device=device, dtype=given.get("x", torch.float32))
        w, b = (normal(2, device=device, dtype=given.get("w", torch.float32)) for _ in range(2))
        running = torch.ones(2, 2, device=device, dtype=given.get("running", torch.float32))
        return F.batch_norm(x, running[0], running[1], w, b, training)

    fits = types in ("all as the input", "float32 beside 16 bits")
    if fits:
        assert_same(run, rtol=2e-2, atol=2e-2)
    else:
        assert_same_error(run, RuntimeError)


def test_a_bias_of_a_layer_norm_of_another_type(device):
    def run(device):
        x = normal(2, 3, device=device, dtype=torch.bfloat16).requires_grad_()
        F.layer_norm(x, (3,), None, torch.ones(3, device=device)).sum().backward()

    assert_same_error(run, RuntimeError)


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


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, 2, 3, 1.5])
def test_a_power_that_is_written_before_backward(device, exponent):
    """Torch's node of a power keeps its operand alone."""

    def run(device):
        x = normal(2, 3, device=device).abs().t().detach().requires_grad_()
        y, z = x.pow(exponent), x.pow(exponent)
        y[0] = 2
        (y.sum() + (z * z).sum()).backward()
        return y.detach(), y.stride(), x.grad

    assert_same(run)


@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_powers_of_infinity_and_zero_in_float16(device, exponent):
    """There torch computes powers, elsewhere roots."""

    def run(device):
        special = [-float("inf"), -0.0, 0.0, float("inf"), 4.0, float("nan"), -1.0]
        results = []
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            x = torch.tensor(special, dtype=dtype).to(device)
            results += [x.pow(exponent), x.clone().pow_(exponent)]
            results.append(torch.pow(x, exponent, out=torch.empty_like(x)))
        return results

    assert_same(run)


@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((3, 4), 0), ((3, 4), 1), ((3, 4, 2), 1)])
def test_class_of_an_index_add_error(device, shape, dim):
    def run(device):
        x, index = torch.ones(shape).to(device), torch.tensor([9]).to(device)
        x.index_add_(dim, index, torch.ones(shape).narrow(dim, 0, 1).to(device)).sum().item()

    expected = raised_class(run, "cpu")
    assert expected is not None
    assert raised_class(run, device) is expected


def test_the_sum_of_many_equal_numbers(device):
    """Errors of one direction add up, unless sums are cut into sums of a few terms."""
    for number in (0.3, 0.7, 1.1):
        x = torch.full((100_003,), number)
        exact = x.double().sum()
        with torch.lazuli.config.patch(unplanned="never"):
            error = (x.to(device).sum().cpu().double() - exact).abs()
        assert error < 10 * torch.finfo(torch.float32).eps * exact
