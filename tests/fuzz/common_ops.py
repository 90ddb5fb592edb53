"""The operators that models are made of, by OpInfo's names: those of an operator census of 74
architectures, forward, backward and optimizer, and what Python's usual interface adds to them.

Half of a program's operators are of these, and `steering.py` counts their pairs; those of the 200
most used are met on purpose.
"""

from fuzz.catalog import operators

MOST_USED = """
    add sub mul div.no_rounding_mode true_divide floor_divide remainder pow neg abs sqrt
    rsqrt exp log log1p sin cos tanh sigmoid erf floor ceil round trunc sign reciprocal
    clamp clamp_min
    clamp_max maximum minimum lerp addcmul addcdiv logical_and logical_or logical_not
    bitwise_and bitwise_or bitwise_not bitwise_xor eq ne lt le gt ge isnan isinf isfinite
    where masked_fill sum mean prod max.reduction_no_dim max.reduction_with_dim
    min.reduction_no_dim min.reduction_with_dim max.binary min.binary amax amin argmax
    argmin any all var var_mean logsumexp norm cumsum cumprod softmax log_softmax mm addmm
    bmm baddbmm matmul outer einsum nn.functional.linear nn.functional.conv1d
    nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.avg_pool1d
    nn.functional.avg_pool2d nn.functional.max_pool1d nn.functional.max_pool2d
    nn.functional.adaptive_avg_pool2d nn.functional.interpolate.bilinear
    nn.functional.interpolate.nearest nn.functional.unfold nn.functional.pixel_shuffle
    nn.functional.layer_norm native_layer_norm nn.functional.rms_norm
    nn.functional.group_norm nn.functional.batch_norm nn.functional.normalize
    nn.functional.relu nn.functional.gelu nn.functional.silu nn.functional.elu
    nn.functional.leaky_relu nn.functional.hardsigmoid nn.functional.hardswish
    nn.functional.hardtanh nn.functional.logsigmoid nn.functional.glu
    nn.functional.embedding nn.functional.one_hot nn.functional.cross_entropy
    nn.functional.nll_loss nn.functional.mse_loss nn.functional.l1_loss
    nn.functional.smooth_l1_loss nn.functional.binary_cross_entropy
    nn.functional.binary_cross_entropy_with_logits nn.functional.cosine_similarity cat stack
    split split.list_args split_with_sizes chunk unbind narrow select slice __getitem__
    unfold permute transpose t movedim reshape view flatten ravel squeeze unsqueeze expand
    expand_as repeat repeat_interleave flip roll diagonal diag tril triu as_strided
    contiguous clone index_select index_put index_add index_fill gather scatter scatter_add
    scatter_reduce.sum scatter_reduce.amax masked_select take_along_dim nonzero searchsorted
    bucketize nn.functional.pad.constant nn.functional.pad.reflect constant_pad_nd sort
    argsort topk zeros_like ones_like full_like new_zeros arange zeros ones full to float
    double half bfloat16 long int bool fill zero_ conj real imag bernoulli square std
""".split()  # noqa: SIM905
LESS_USED = """
    fmod rsub expm1 log2 tan fmin fmax atan2 logical_xor bitwise_left_shift isclose
    nan_to_num positive sgn frac aminmax std_mean linalg.vector_norm count_nonzero nansum
    median cummax logcumsumexp addmv mv dot linalg.multi_dot nn.functional.bilinear
    tensordot nn.functional.conv3d nn.functional.conv_transpose1d
    nn.functional.adaptive_avg_pool1d nn.functional.adaptive_max_pool2d
    nn.functional.interpolate.bicubic nn.functional.grid_sample nn.functional.instance_norm
    nn.functional.local_response_norm nn.functional.relu6 nn.functional.mish
    nn.functional.selu nn.functional.celu nn.functional.softplus nn.functional.softsign
    nn.functional.prelu nn.functional.threshold nn.functional.tanhshrink
    nn.functional.softshrink nn.functional.hardshrink nn.functional.huber_loss
    nn.functional.kl_div nn.functional.pairwise_distance hstack vstack tensor_split
    unflatten broadcast_to tile rot90 diag_embed index_copy masked_scatter take
    select_scatter slice_scatter diagonal_scatter bincount histc nn.functional.pad.replicate
    nn.functional.pad.circular kthvalue msort unique isin new_ones new_full linspace eye
    view_as_real view_as_complex complex polar angle
""".split()  # noqa: SIM905


def most_used() -> list[str]:
    return MOST_USED


def common() -> list[str]:
    """Those that `call` knows."""
    known = operators()
    return [name for name in MOST_USED + LESS_USED if name in known]
