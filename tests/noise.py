"""Eager with random rounding: how far rounding alone can take results.

Monte Carlo arithmetic (D. S. Parker, "Monte Carlo Arithmetic: exploiting randomness in
floating-point arithmetic", UCLA CSD-970002, 1997), a child of Vignes' CESTAC method (1974): each
operation's result is moved by a random relative error of the size of its rounding error. The
spread of a few such runs says how many digits of a result mean anything: cancellation, a branch
next to its threshold and the order of near ties show in it, and a wrong result does not.

Here an operation is one ATen operator. The results of those that compute are moved, and so are
copies of their floating operands, because many are formulas that round within, and sums have an
order that nobody promised (a backward stable sum is the exact sum of operands that were moved a
little). What only moves numbers around is exact and stays, and what compares or cuts off its
operands takes them as they are. An operator in which something cancels that its operands do not
show, as the one in log(1 + small) does, is its parts. Factors come in another order, for some
product of a part of them may overflow.
"""

import contextlib

import torch
import torch.autograd.forward_ad
from torch._decomp import decomposition_table
from torch._refs.nn.functional import gelu
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from undefined import has_rounding, leaves_open, written

UNITS = 1.5  # the largest error of a result, in units of its type's last place

EXACT = set(
    """
    clone copy_ _to_copy cat stack where index index_put index_put_ _index_put_impl_ gather
    index_select scatter scatter_ scatter_src masked_fill masked_fill_ masked_scatter
    masked_select fill fill_ zero_ zeros ones full empty empty_like empty_strided new_zeros
    new_ones new_full new_empty new_empty_strided zeros_like ones_like full_like arange eye
    scalar_tensor lift_fresh lift neg neg_ abs abs_ relu relu_ clamp clamp_ clamp_min clamp_max
    clamp_min_ clamp_max_ maximum minimum max min amax amin sort topk cummax cummin kthvalue
    median nanmedian mode round floor ceil trunc sign sgn flip roll repeat constant_pad_nd triu
    tril triu_ tril_ select_scatter slice_scatter diagonal_scatter as_strided_scatter
    select_backward slice_backward diagonal_backward set_ resize_ resize_as_ bernoulli_ normal_
    uniform_ random_ rand randn rand_like randn_like randint threshold_backward
    _local_scalar_dense detach_ complex real imag unfold_backward max_pool2d_with_indices
    embedding reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d
    pixel_shuffle channel_shuffle unique_dim _unique2 nonzero diag_embed nan_to_num
    conj_physical resolve_conj resolve_neg _reshape_copy _unsafe_view clone_preserve_strides
    _new_zeros_with_same_feature_meta masked_fill_Scalar take put put_ _conj_physical frac copysign
    """.split()  # noqa: SIM905
)

# Of complex numbers these round.
OF_PARTS = {"abs", "sgn"}

DISCRETE = set(
    """
    floor_divide floor_divide_ remainder remainder_ fmod fmod_ div_mode eq ne lt le gt ge argmax
    argmin argsort bucketize searchsorted  isclose equal allclose heaviside
    nextafter frexp unique_consecutive isin
    """.split()  # noqa: SIM905
)


# What is a product of factors within: its errors are small beside the largest number of a matrix.
BY_NORM = {"linalg_pinv"}

aten = torch.ops.aten
IN_PARTS = {
    function: decomposition_table[function]
    for function in (
        aten._log_softmax.default,
        aten._softmax.default,
        aten.binary_cross_entropy_with_logits.default,
        aten.log_sigmoid_forward.default,
        aten.softplus.default,
        aten.soft_margin_loss.default,
        aten.native_layer_norm.default,
        aten.native_group_norm.default,
        aten.native_batch_norm.default,
        aten.native_layer_norm_backward.default,
        aten.native_group_norm_backward.default,
        aten.native_batch_norm_backward.default,
        aten._softmax_backward_data.default,
        aten._log_softmax_backward_data.default,
        aten.gelu_backward.default,
    )
} | {
    aten.gelu.default: gelu,
    aten.logsumexp.default: lambda *a, **k: logarithm_of_sum(*a, **k),
    aten.var.correction: lambda *a, **k: variance_and_mean(*a, **k)[0],
    aten.std.correction: lambda *a, **k: variance_and_mean(*a, **k)[0].sqrt(),
    aten.var_mean.correction: lambda *a, **k: variance_and_mean(*a, **k),
    aten.std_mean.correction: lambda *a, **k: deviation_and_mean(*a, **k),
}

# Results of these lie within bounds; operands of those, by number, are checked probabilities.
RANGES = {"sigmoid": (0, 1), "tanh": (-1, 1), "sin": (-1, 1), "cos": (-1, 1), "erf": (-1, 1)}
PROBABILITIES = {
    "bernoulli": (0,),
    "binary_cross_entropy": (0, 1),
    "binary_cross_entropy_backward": (1, 2),
}


SUMS = (
    *("add", "sub", "lerp", "sum", "mean", "addcmul", "addcdiv"),
    *("dot", "mv", "mm", "bmm", "addmv", "addmm", "baddbmm"),
)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def sum_of_sizes(function, args: tuple, kwargs: dict) -> torch.Tensor:
    args = tree_map_only(torch.Tensor, torch.abs, args)
    if function.overloadpacket is aten.lerp:
        start, end, weight = args
        return start + abs(weight) * (start + end)
    kwargs = {k: abs(x) if k in ("alpha", "beta", "value") else x for k, x in kwargs.items()}
    if "out" in kwargs:  # which has the sum itself
        kwargs["out"] = kwargs["out"].new_empty(0)
    if function is aten.sub.Tensor:
        function = aten.add.Tensor
    return function(*args, **kwargs).abs()


def logarithm_of_sum(x, dim, keepdim=False):
    """Of exponentials; the sum is rounded where its logarithm may be next to nothing."""
    x = x if has_rounding(x) else x.to(torch.get_default_dtype())
    if x.numel() == 0:
        return x.exp().sum(dim, keepdim).log()
    largest = x.real.amax(dim, keepdim=True)
    largest = largest.masked_fill(largest.isinf(), 0)
    total = (x - largest).exp().sum(dim, keepdim)
    return total.log() + largest.reshape(total.shape)


def variance_and_mean(x, dim=None, *, correction=None, keepdim=False):
    """In two passes, where torch's kernels update both by differences."""
    wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    dim = dim or list(range(x.dim()))
    mean = wide.mean(dim, keepdim=True)
    apart = wide - mean
    squares = apart.real.square() + apart.imag.square() if x.is_complex() else apart.square()
    count = x.numel() / max(mean.numel(), 1)
    degrees = max(count - (1 if correction is None else correction), 0)
    variance = squares.sum(dim, keepdim) / degrees
    kind = x.dtype.to_real()
    return variance.to(kind), (mean if keepdim else mean.squeeze(dim)).to(x.dtype)


def without_statistics(t: torch.Tensor) -> torch.Tensor:
    return t.clone() if t.dim() == 1 else t


def deviation_and_mean(*args, **kwargs):
    variance, mean = variance_and_mean(*args, **kwargs)
    return variance.sqrt(), mean


class Noise(TorchDispatchMode):
    """While it is on, operators round at random; by no units, they only take another order.

    `share`: of the elements. What cancels to nothing, as the deviation of equal numbers, depends on
    how many of them are off.
    """

    def __init__(self, seed: int, units: float = UNITS, share: float = 1):
        super().__init__()
        self.units, self.share = units, share
        self.source = torch.Generator().manual_seed(seed)
        self.is_undefined = False  # whether some call left its result open
        self.before = []  # of the settings that it changes; it is on more than once in an operator

    def __enter__(self):
        # Else a whole layer of a transformer or a recurrent network is one operator.
        before = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
        self.before.append(before)
        torch.backends.mha.set_fastpath_enabled(False)
        torch._C._set_mkldnn_enabled(False)
        return super().__enter__()

    def __exit__(self, *error):
        fast_path, onednn = self.before.pop()
        torch.backends.mha.set_fastpath_enabled(fast_path)
        torch._C._set_mkldnn_enabled(onednn)
        return super().__exit__(*error)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name.split("::")[1]
        self.is_undefined |= leaves_open(function, args, kwargs)
        if function in IN_PARTS:
            # Its results lie as they do, and are rounded in the end; statistics change once.
            own = function(*tree_map_only(torch.Tensor, without_statistics, args), **kwargs)
            with self:
                parts = IN_PARTS[function](*args, **kwargs)
            for to, part in zip(tree_leaves(own), tree_leaves(parts), strict=True):
                if isinstance(to, torch.Tensor) and isinstance(part, torch.Tensor):
                    to.copy_(self.moved(part))
            return own
        parts = IN_PARTS.get(getattr(function.overloadpacket, "default", None))
        if parts and isinstance(out := kwargs.get("out"), torch.Tensor):
            function(*args, **kwargs)  # its errors, and out's shape
            with self:
                return out.copy_(parts(*args, **{k: x for k, x in kwargs.items() if x is not out}))
        moves = (
            not is_exact(name, args) and not is_view(function) and not takes_extremes(name, args)
        )
        if moves and name not in DISCRETE:
            self.move_written(function, args)
            # A list may be written tensor by tensor, each from what the last has left.
            kept = {t.untyped_storage()._cdata for t in written(function, args, kwargs)}

            def moved(t: torch.Tensor) -> torch.Tensor:
                return t if t.untyped_storage()._cdata in kept else self.moved(t)

            args = tuple(
                tree_map_only(torch.Tensor, moved, one) if self.may_move(function, i) else one
                for i, one in enumerate(args)
            )
        compares = name.rstrip("_") in COMPARISONS
        if compares and has_rounding(args[0]):
            met = self.met(*args[:2])
            args = (args[0].copy_(met) if name.endswith("_") else met, *args[1:])
        if name in ("pow", "pow_") and isinstance(args[1], torch.Tensor):
            args = (args[0], near_integer(args[1]), *args[2:])
        for i in PROBABILITIES.get(name, ()):
            args = (*args[:i], probability(args[i]), *args[i + 1 :])
        if name == "prod" and args[0].dim() > 0 and args[0].numel() > 0:
            args = (self.partial_products(args[0], *args[1:2]), *args[1:])
        result = function(*args, **kwargs)
        if not moves or compares:
            return result
        # In forward mode a result may be the dual tensor itself: torch crashes where it is written.
        if torch.autograd.forward_ad._current_level >= 0:
            new = not any(r.alias_info for r in function._schema.returns)
            return tree_map_only(torch.Tensor, self.moved, result) if new else result
        by_norm = name in BY_NORM and result.dim() > 1
        tree_map_only(torch.Tensor, lambda t: self.move(t, by_norm), result)
        if name in SUMS and has_rounding(result):
            self.cancel(result, sum_of_sizes(function, args, kwargs))
        if name.rstrip("_") in RANGES and result.is_floating_point():
            with contextlib.suppress(RuntimeError):
                result.clamp_(*RANGES[name.rstrip("_")])
        return result

    def cancel(self, t: torch.Tensor, size: torch.Tensor) -> None:
        """Some of what is no more than the rounding error of a sum is nothing at all."""
        small = t.abs() <= 4 * torch.finfo(t.dtype).eps * size
        small &= torch.rand(t.shape, generator=self.source) < 0.25
        if small.any():
            t.masked_fill_(small, 0)

    def met(self, t: torch.Tensor, other) -> torch.Tensor:
        """Some of what a few last digits keep apart from the other operand is equal to it."""
        near = (t - other).abs() <= 4 * torch.finfo(t.dtype).eps * t.abs()
        near &= torch.rand(near.shape, generator=self.source) < 0.5
        return torch.where(near, other, t).to(t.dtype) if near.any() else t

    @staticmethod
    def may_move(function, i: int) -> bool:
        """What is written is moved afterwards; and other exponents make nan of negative numbers."""
        arguments = function._schema.arguments
        return i >= len(arguments) or not (arguments[i].is_write or arguments[i].name == "exponent")

    def move_written(self, function, args: tuple) -> None:
        """What an operator in place reads, too."""
        if function._schema.name.endswith("_") and isinstance(args[0], torch.Tensor):
            self.move(args[0])

    def factor(self, t: torch.Tensor) -> torch.Tensor:
        wide = torch.float64 if t.dtype in (torch.float64, torch.complex128) else torch.float32
        unit = self.units * torch.finfo(t.dtype).eps
        drawn = torch.rand(t.shape, generator=self.source, dtype=torch.float64)
        if self.share < 1:
            unit = unit * (torch.rand(t.shape, generator=self.source) < self.share)
        return (1 + unit * (2 * drawn - 1)).to(wide)

    def moved(self, t: torch.Tensor) -> torch.Tensor:
        if not has_rounding(t):
            return t
        if t.is_conj():  # which torch, this near to its kernels, no longer looks at
            return self.moved(t.conj()).conj()
        if t.is_neg():
            return self.moved(t._neg_view())._neg_view()
        same_strides = torch.empty_like(t)
        if not t.is_complex():
            return same_strides.copy_(t * self.factor(t))
        # Part by part: as a product of complex numbers an infinite part would make the other nan.
        parts = torch.view_as_real(t) * self.factor(t).unsqueeze(-1)
        return same_strides.copy_(torch.view_as_complex(parts))

    def partial_products(self, t: torch.Tensor, dim: int | None = None) -> torch.Tensor:
        """Of a few factors each, in another order; their product is that of all.

        Where some overflow and others vanish, it is infinite, zero or nan as chance has it. As in
        vector units: first those of each lane, then the lanes, some with each other first.
        """

        def any_below(n: int) -> int:
            return int(torch.randint(0, n, (), generator=self.source))

        if dim is None:  # all, often with dimensions in another order; the inner ones are lanes
            if any_below(2):
                t = t.permute(torch.randperm(t.dim(), generator=self.source).tolist())
            lanes = t[(0,) * any_below(t.dim())].numel()
            t = t.reshape(-1)
        else:
            t = t.movedim(dim, 0)
            lanes = len(t)
        if any_below(2):
            lanes = min(lanes, 2 ** any_below(8))
        parts = torch.stack([t[lane::lanes].prod(0) for lane in range(lanes)])
        parts = parts[torch.randperm(len(parts), generator=self.source)]
        count = 1 + any_below(8)
        return torch.stack([p.prod(0) for p in parts.tensor_split(count)]).movedim(0, dim or 0)

    def move(self, t: torch.Tensor, by_norm: bool = False):
        if has_rounding(t):
            # Where its elements overlap, or nobody may write to it, it stays.
            with contextlib.suppress(RuntimeError):
                size = t.abs().amax((-2, -1), keepdim=True) if by_norm else t
                error = size * (self.factor(t) - 1)
                t.copy_(torch.where(error.isfinite(), t + error, t))  # infinity stays
                if t.is_floating_point() and (nan := t.isnan()).any():
                    t.copy_(torch.where(nan, self.some_nan(t.dtype), t))

    def some_nan(self, kind: torch.dtype) -> torch.Tensor:
        """One of those that a kernel may give: its sign and payload show where bits are read."""
        quiet = torch.tensor(float("nan"), dtype=kind).view(INTEGER[kind.itemsize])
        sign = torch.iinfo(quiet.dtype).min
        chosen = int(torch.randint(0, 3, (), generator=self.source))
        return (quiet, quiet | sign, quiet | -1)[chosen].view(kind)


INTEGER = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def probability(t: torch.Tensor) -> torch.Tensor:
    """What noise alone has taken beyond 0 or 1 is that; what was beyond them, stays an error."""
    if not t.is_floating_point():
        return t
    within = t.clamp(0, 1)
    return torch.where((t - within).abs() <= 4 * torch.finfo(t.dtype).eps, within, t)


def near_integer(exponent: torch.Tensor) -> torch.Tensor:
    """What rounding alone keeps from being one, where negative numbers would have no power."""
    if not exponent.is_floating_point():
        return exponent
    whole = exponent.round()
    near = (exponent - whole).abs() <= 8 * torch.finfo(exponent.dtype).eps * whole.abs()
    return torch.where(near, whole, exponent)


def takes_extremes(name: str, args: tuple) -> bool:
    """Whether it takes the largest or smallest by index: its derivative asks where those are."""
    by_index = name.rstrip("_").removesuffix("_two") in ("scatter_reduce", "index_reduce")
    return by_index and any(isinstance(x, str) and x in ("amax", "amin") for x in args)


def is_exact(name: str, args: tuple) -> bool:
    if name in OF_PARTS and args[0].is_complex():
        return False
    return name in EXACT


def is_view(function) -> bool:
    return any(
        r.alias_info is not None and not r.alias_info.is_write for r in function._schema.returns
    )
