"""The operators that models are made of, by OpInfo's names: those of an operator census of 74
architectures, forward, backward and optimizer, and what Python's usual interface adds to them.

Half of a program's operators are of these, and `steering.py` counts their pairs.
"""

from fuzz.catalog import operators

NAMES = """
    add sub mul div true_divide floor_divide remainder fmod pow rsub neg abs sqrt rsqrt square
    exp expm1 log log1p log2 sin cos tan tanh sigmoid erf floor ceil round trunc sign reciprocal
    clamp clamp_min clamp_max maximum minimum fmin fmax lerp addcmul addcdiv atan2 logical_and
    logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor
    bitwise_left_shift eq ne lt le gt ge isnan isinf isfinite isclose where masked_fill
    nan_to_num positive sgn frac sum mean prod max.reduction_no_dim max.reduction_with_dim
    min.reduction_no_dim min.reduction_with_dim max.binary min.binary amax amin aminmax argmax
    argmin any all var std var_mean std_mean logsumexp norm linalg.vector_norm count_nonzero
    nansum median cumsum cumprod cummax logcumsumexp softmax log_softmax mm addmm bmm baddbmm
    addmv mv dot matmul outer einsum linalg.multi_dot nn.functional.linear
    nn.functional.bilinear tensordot nn.functional.conv1d nn.functional.conv2d
    nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
    nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.max_pool1d
    nn.functional.max_pool2d nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
    nn.functional.adaptive_max_pool2d nn.functional.interpolate.bilinear
    nn.functional.interpolate.nearest nn.functional.interpolate.bicubic nn.functional.unfold
    nn.functional.pixel_shuffle nn.functional.grid_sample nn.functional.layer_norm
    native_layer_norm nn.functional.rms_norm nn.functional.group_norm nn.functional.batch_norm
    nn.functional.instance_norm nn.functional.normalize nn.functional.local_response_norm
    nn.functional.relu nn.functional.relu6 nn.functional.gelu nn.functional.silu
    nn.functional.mish nn.functional.elu nn.functional.selu nn.functional.celu
    nn.functional.leaky_relu nn.functional.hardsigmoid nn.functional.hardswish
    nn.functional.hardtanh nn.functional.softplus nn.functional.softsign
    nn.functional.logsigmoid nn.functional.prelu nn.functional.glu nn.functional.threshold
    nn.functional.tanhshrink nn.functional.softshrink nn.functional.hardshrink
    nn.functional.embedding nn.functional.one_hot nn.functional.cross_entropy
    nn.functional.nll_loss nn.functional.mse_loss nn.functional.l1_loss
    nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.binary_cross_entropy
    nn.functional.binary_cross_entropy_with_logits nn.functional.kl_div
    nn.functional.cosine_similarity nn.functional.pairwise_distance cat stack hstack vstack
    split split.list_args split_with_sizes chunk unbind tensor_split narrow select slice
    __getitem__ unfold permute transpose t movedim reshape view flatten ravel unflatten squeeze
    unsqueeze expand expand_as broadcast_to repeat repeat_interleave tile flip roll rot90
    diagonal diag diag_embed tril triu as_strided contiguous clone index_select index_put
    index_add index_copy index_fill gather scatter scatter_add scatter_reduce.sum
    scatter_reduce.amax masked_select masked_scatter take take_along_dim select_scatter
    slice_scatter diagonal_scatter nonzero searchsorted bucketize bincount histc
    nn.functional.pad.constant nn.functional.pad.reflect nn.functional.pad.replicate
    constant_pad_nd nn.functional.pad.circular sort argsort topk kthvalue msort unique isin
    zeros_like ones_like full_like new_zeros new_ones new_full arange linspace eye zeros ones
    full to float double half bfloat16 long int bool fill zero_ conj real imag view_as_real
    view_as_complex complex polar angle bernoulli
""".split()  # noqa: SIM905


def common() -> list[str]:
    known = operators()
    return [name for name in NAMES if name in known]
