"""The OpInfo entries whose operators have kernels of the device's own, by kind.

`test_opinfo.py` checks every one of them against cpu, and that none is missing: an operator that
is registered for the device belongs into this list under OpInfo's name.
"""

from versions import TORCH

UNARY = """abs acos acosh angle asin asinh atan atanh bitwise_not ceil cos cosh deg2rad erf erfc exp
exp2 expm1 floor frac isfinite isinf isnan isneginf isposinf log log10 log1p log2 logical_not logit
neg positive rad2deg reciprocal round rsqrt sgn sigmoid sign signbit sin sinh sqrt square tan tanh
trunc i0 nan_to_num special.erfcx round.decimals_0 round.decimals_3 round.decimals_neg_3
polygamma.polygamma_n_0 polygamma.polygamma_n_1 polygamma.polygamma_n_2 polygamma.polygamma_n_3
polygamma.polygamma_n_4 special.polygamma.special_polygamma_n_0"""

ACTIVATION = """nn.functional.celu nn.functional.elu nn.functional.gelu nn.functional.glu
nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh
nn.functional.leaky_relu nn.functional.logsigmoid nn.functional.mish nn.functional.prelu
nn.functional.relu nn.functional.relu6 nn.functional.selu nn.functional.silu
nn.functional.softplus nn.functional.softsign nn.functional.tanhshrink
nn.functional.threshold nn.functional.softshrink nn.functional.hardshrink"""

BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
clamp_max clamp_min copysign div.floor_rounding div.no_rounding_mode div.trunc_rounding eq
float_power floor_divide fmax fmin fmod ge gt hypot le logaddexp logical_and logical_or logical_xor
lt max.binary maximum min.binary minimum mul ne pow remainder rsub sub true_divide xlogy __radd__
__rand__ __rdiv__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__ gcd ldexp"""

TERNARY = "addcdiv addcmul clamp lerp masked_fill where"

REDUCTION = """all amax amin any argmax argmin count_nonzero cumsum cumprod logsumexp
quantile nanquantile max.reduction_no_dim
max.reduction_with_dim mean min.reduction_no_dim min.reduction_with_dim norm
prod std std_mean sum var var_mean linalg.vector_norm aminmax nansum nanmean std.unbiased
var.unbiased std_mean.unbiased var_mean.unbiased masked.sum masked.cumsum masked.prod masked.amax
masked.amin masked.argmax masked.argmin masked.logaddexp masked.mean masked.var masked.std
masked.cumprod masked.logsumexp"""

SOFTMAX_AND_NORM = """softmax log_softmax nn.functional.batch_norm nn.functional.group_norm
nn.functional.layer_norm nn.functional.rms_norm nn.functional.instance_norm
nn.functional.normalize nn.functional.local_response_norm native_batch_norm
_native_batch_norm_legit native_layer_norm nn.functional.softmin softmax.with_dtype
log_softmax.with_dtype"""

LOSS = """nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
nn.functional.cross_entropy nn.functional.huber_loss nn.functional.kl_div nn.functional.l1_loss
nn.functional.mse_loss nn.functional.nll_loss nn.functional.smooth_l1_loss
nn.functional.cosine_similarity nn.functional.gaussian_nll_loss nn.functional.soft_margin_loss"""

CONTRACTION = """__rmatmul__ addbmm addmm addmm.decomposed addmv addr baddbmm bmm dot einsum inner
matmul matrix_exp mm mv outer tensordot vdot nn.functional.bilinear
nn.functional.linear
nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
nn.functional.conv_transpose2d nn.functional.conv_transpose3d linalg.multi_dot
nn.functional.scaled_dot_product_attention"""

WINDOW = """nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool1d
nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.max_pool1d
nn.functional.max_pool2d max_pool2d_with_indices_backward
nn.functional.interpolate.nearest nn.functional.interpolate.bilinear
nn.functional.interpolate.bicubic nn.functional.unfold
nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
nn.functional.upsample_nearest nn.functional.upsample_bilinear"""

INDEX = """cat gather index_add index_copy index_fill index_put index_select
nn.functional.embedding nn.functional.one_hot nn.functional.pad.constant nn.functional.pad.reflect
roll scatter scatter_add scatter_reduce.sum scatter_reduce.prod scatter_reduce.mean
scatter_reduce.amin scatter_reduce.amax stack take take_along_dim tril triu __getitem__
constant_pad_nd masked_select hstack vstack dstack column_stack flip repeat repeat_interleave tile
topk sort histc nonzero argsort unique"""

VIEW = """as_strided as_strided.partial_views atleast_1d atleast_2d atleast_3d broadcast_tensors
broadcast_to chunk contiguous diag diag_embed diagonal dsplit expand expand_as flatten hsplit
movedim narrow permute ravel reshape reshape_as resolve_conj select slice split split.list_args
split_with_sizes squeeze squeeze.multiple t transpose unbind unflatten unfold unsqueeze
view view_as vsplit T mT diagonal_scatter select_scatter slice_scatter as_strided_scatter
tensor_split unsafe_chunk unsafe_split view_copy unfold_copy squeeze_copy narrow_copy"""

CREATION = """arange clone fill full full_like linspace
linspace.tensor_overload new_full new_ones
new_zeros ones ones_like zeros zeros_like eye scalar_tensor zero_ logspace bfloat16 bool byte char
double float half int long short to _softmax_backward_data"""

# Registered too, and not compared to cpu here: what has no content yet (empty), random numbers,
# whose sequence is each device's own (see backend/test_random.py), what shares only a name, what
# is registered for the fallback, in some types or all (tests/conformance compares all operators).
ELSEWHERE = """bernoulli cauchy complex conj_physical empty empty_strided exponential geometric
grid_sampler_2d grid_sampler_3d linalg.polar log_normal mode multinomial native_dropout_backward
nn.functional.silu.complex normal normal.in_place normal.number_mean polar resize_
signal.windows.exponential sparse.mm.reduce special.chebyshev_polynomial_t
special.chebyshev_polynomial_u special.chebyshev_polynomial_v
special.chebyshev_polynomial_w special.hermite_polynomial_h
special.hermite_polynomial_he special.laguerre_polynomial_l
special.legendre_polynomial_p special.shifted_chebyshev_polynomial_t
special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v
special.shifted_chebyshev_polynomial_w uniform view_as_complex"""

BY_KIND = {
    "unary": UNARY,
    "activation": ACTIVATION,
    "binary": BINARY,
    "ternary": TERNARY,
    "reduction": REDUCTION,
    "softmax_and_norm": SOFTMAX_AND_NORM,
    "loss": LOSS,
    "contraction": CONTRACTION,
    "window": WINDOW,
    "index": INDEX,
    "view": VIEW,
    "creation": CREATION,
}

# What OpInfo has had only since a version of torch.
SINCE = {(2, 13): "native_group_norm bmm.triton_optimized"}

NAMES = [
    name
    for names in (*BY_KIND.values(), *(SINCE[first] for first in SINCE if first <= TORCH))
    for name in names.split()
]
