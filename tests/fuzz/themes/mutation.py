"""Writes, data-dependent ops, gradients that are accumulated and changed, functions of the user's."""
# ruff: noqa: E501 - statements of programs are longer than lines of code.

import math

from fuzz.literal import shape_text
from fuzz.themes.layouts import operand

SHAPES = [(4,), (3, 4), (5, 5), (2, 3, 4), (6,), (1, 4), (3, 1), (2, 2), (16,), (0,), (0, 3), ()]
KINDS = ["F32"] * 6 + ["F64", "BF16", "F16", "I64", "I32", "U8", "BOOL", "C64", "I8", "I16"]


def is_float(kind):
    return kind[0] in "FB" and kind != "BOOL"


def indices(b, count, bound, unique=False) -> str:
    rng = b.rng
    if unique:
        values = rng.sample(range(bound), min(count, bound))
    else:
        values = (
            [rng.randrange(-bound if rng.random() < 0.2 else 0, bound) for _ in range(count)]
            if bound
            else []
        )
    return f"data({values}, I64)"


def scattering(b):
    """Writes at places that are numbers."""
    rng = b.rng
    shape, kind = rng.choice([s for s in SHAPES if s and 0 not in s]), rng.choice(KINDS)
    d = rng.randrange(len(shape))
    count = rng.choice([1, 2, 3, 5])
    x = operand(b, shape, kind)
    source_shape = (*shape[:d], count, *shape[d + 1 :])
    y = operand(b, source_shape, kind)
    index = indices(b, count, shape[d])
    wide = f"{index}.abs().view({', '.join(str(count) if i == d else '1' for i in range(len(shape)))}).expand({shape_text(source_shape)})"
    wide = wide.replace(".abs()", f".remainder({shape[d]})")
    reduce = rng.choice(["sum", "prod", "mean", "amax", "amin"])
    ways = [
        f"{x}.index_add({d}, {index}.remainder({shape[d]}), {y})",
        f"{x}.index_add({d}, {index}.remainder({shape[d]}), {y}, alpha={rng.choice(['2', '-1'])})",
        f"{x}.index_reduce({d}, {index}.remainder({shape[d]}), {y}, {rng.choice(['prod', 'mean', 'amax', 'amin'])!r}, include_self={rng.random() < 0.5})",
        f"{x}.scatter_reduce({d}, {wide}, {y}, {reduce!r}, include_self={rng.random() < 0.5})",
        f"{x}.scatter_add({d}, {wide}, {y})",
        f"{x}.index_put(({', '.join([':'] * 0 + [f'{index}'])},), {operand(b, (count, *shape[1:]), kind)}, accumulate=True)"
        if d == 0
        else f"{x}.index_fill({d}, {index}.remainder({shape[d]}), 3)",
        f"{x}.gather({d}, {wide})",
        f"{x}.index_select({d}, {index}.remainder({shape[d]}))",
        f"{x}[{', '.join([':'] * d + [index])}]",
        f"{x}.take({index}.remainder({max(1, math.prod(shape))}))",
        f"{x}.masked_scatter({x}.abs() > 0.5, {operand(b, (math.prod(shape),), kind)})"
        if kind != "BOOL"
        else f"~{x}",
        f"{x}.put({index}.remainder({math.prod(shape)}), {operand(b, (count,), kind)}, accumulate=True)",
        f"torch.take_along_dim({x}, {wide}, {d})",
        f"{x}.masked_select({x} > 0)" if kind[0] != "C" else f"{x}.abs()",
        f"{x}[{x} > 0]" if kind[0] != "C" else f"{x}.real",
        f"torch.bincount({index}.abs(), minlength={rng.choice([0, 3, 9])})",
        f"F.one_hot({index}.remainder({shape[d]}), {shape[d]})",
        f"F.embedding({index}.remainder({shape[0]}), {operand(b, (shape[0], 3), 'F32')}, padding_idx={rng.choice(['None', '0'])}, scale_grad_by_freq={rng.random() < 0.3})",
        f"F.embedding_bag({index}.remainder({shape[0]}), {operand(b, (shape[0], 3), 'F32')}, data([0, {rng.randrange(count)}], I64), mode={rng.choice(['sum', 'mean', 'max'])!r})",
        f"torch.segment_reduce({operand(b, (4, 3), 'F32')}, 'sum', lengths=data([1, 0, 3], I64))",
    ]
    if rng.random() < 0.5:
        b.bind(rng.choice(ways), "scatter")
        return
    x = operand(b, shape, kind, grad=False)
    unique = indices(b, count, shape[d], unique=True)
    n = min(count, shape[d])
    y = operand(b, (*shape[:d], n, *shape[d + 1 :]), kind)
    ys = operand(b, (n, *shape[1:]), kind) if d == 0 else "2"
    writes = [
        f"{x}.index_copy_({d}, {unique}, {y}.detach())",
        f"{x}.index_add_({d}, {unique}, {y}.detach())",
        f"{x}.index_put_(({', '.join([f'torch.arange({shape[0]}, device=dev)'] if d else [indices(b, n, shape[0], d != 0)])},), {ys if ys != '2' else 'data(2, ' + kind + ')'}, accumulate=True)",
        f"{x}.index_fill_({d}, {unique}, {rng.choice(['0', '1', '2'])})",
        f"{x}[{', '.join([':'] * d + [unique])}] = {rng.choice([y, '3', '0'])}",
        f"{x}[{', '.join([':'] * d + [unique])}] += {rng.choice([y, '1'])}",
        f"{x}[{', '.join([':'] * d + ['::2'])}] = {rng.choice(['3', '0', 'True'])}",
        f"{x}.masked_fill_({x}.abs() > 0, 2)" if kind != "BOOL" else f"{x}.logical_not_()",
        f"{x}.diagonal().fill_(1)" if len(shape) > 1 else f"{x}.zero_()",
        f"{x}.as_strided((2,), (1,), {x}.storage_offset() + 1).fill_(2)"
        if math.prod(shape) > 3
        else f"{x}.fill_(1)",
        f"{x}.unfold({d}, 1, 1).mul_(2)" if kind != "BOOL" else f"{x}.fill_(True)",
        f"{x}.view(-1)[::3].fill_(1)",
        f"{x}.T.copy_({x}.T.clone())" if len(shape) == 2 else f"{x}.copy_({x}.clone())",
        f"{x}.scatter_({d}, {unique}.view({', '.join('-1' if i == d else '1' for i in range(len(shape)))}).expand({shape_text((*shape[:d], n, *shape[d + 1 :]))}), {rng.choice([y, '1'])})",
        f"{x}[{x} > 0] = 1" if kind[0] != "C" else f"{x}.real.fill_(1)",
        f"{x}[{x} > 0] += 1" if kind[0] != "C" and kind != "BOOL" else f"{x}.fill_(1)",
    ]
    b.write(rng.choice(writes), x, "scatter_")


SPECIAL = [
    "nan",
    "inf",
    "-inf",
    "0.0",
    "-0.0",
    "1e-45",
    "3e38",
    "-3e38",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "-1.0",
    "1.0",
    "2.0",
    "1e-30",
    "65504.0",
    "1e5",
]
INTS = ["0", "1", "-1", "2", "-2", "3", "7", "-7", "100", "127", "-128"]


def special(b, kind, count=8) -> str:
    rng = b.rng
    values = (
        SPECIAL
        if is_float(kind) or kind[0] == "C"
        else INTS
        if kind != "U8"
        else ["0", "1", "2", "3", "127", "128", "255", "200"]
    )
    if kind == "BOOL":
        values = ["True", "False"]
    if kind in ("I32", "I64") and rng.random() < 0.3:
        values = [*INTS, "2147483647", "-2147483648"]
    if kind == "I64" and rng.random() < 0.3:
        values = [*values, "9223372036854775807", "-9223372036854775808", "4294967296"]
    return f"data([{', '.join(rng.choice(values) for _ in range(count))}], {kind})"


def edges(b):
    """Elementwise ops and others at nan, infinities, zeros of both signs, ends of types, ties."""
    rng = b.rng
    kind, other = rng.choice(KINDS), rng.choice(KINDS)
    x = (b.bind(special(b, kind), "create") or ["None"])[0]
    y = (b.bind(special(b, other), "create") or ["None"])[0]
    s = rng.choice(
        ["0", "1", "2", "-1", "0.5", "-0.5", "True", "3", "nan", "inf", "1e10", "-3", "2.0"]
    )
    if rng.random() < 0.4:
        y = (
            f"data({rng.choice(['2', '0', '-1.5', 'True', '3'])}, {other})"
            if rng.random() < 0.5
            else s
        )
    ways = [
        f"{x} + {y}",
        f"{x} - {y}",
        f"{x} * {y}",
        f"{x} / {y}",
        f"{x} // {y}",
        f"{x} % {y}",
        f"{x} ** {y}",
        f"{s} - {x}",
        f"{s} ** {x}",
        f"{s} / {x}",
        f"{s} // {x}",
        f"{s} % {x}",
        f"torch.fmod({x}, {y})",
        f"torch.div({x}, {y}, rounding_mode='floor')",
        f"torch.div({x}, {y}, rounding_mode='trunc')",
        f"torch.maximum({x}, torch.as_tensor({y}, device=dev))",
        f"torch.fmin({x}, torch.as_tensor({y}, device=dev))",
        f"torch.atan2({x}, torch.as_tensor({y}, device=dev))",
        f"torch.hypot({x}, torch.as_tensor({y}, device=dev))",
        f"torch.copysign({x}, {y})",
        f"torch.nextafter({x}, torch.as_tensor({y}, device=dev))",
        f"torch.heaviside({x}, torch.as_tensor({y}, device=dev))",
        f"torch.logaddexp({x}, torch.as_tensor({y}, device=dev))",
        f"torch.xlogy({x}, {y})",
        f"torch.special.xlog1py({x}, {y})",
        f"torch.ldexp({x}, torch.as_tensor({y}, device=dev))",
        f"torch.float_power({x}, {y})",
        f"torch.bitwise_left_shift({x}, {y})",
        f"torch.bitwise_right_shift({x}, {y})",
        f"{x} << 1",
        f"{x} >> 1",
        f"{x} & {y}",
        f"{x} | {y}",
        f"{x} ^ {y}",
        f"~{x}",
        f"torch.gcd({x}, torch.as_tensor({y}, device=dev))",
        f"torch.lcm({x}, torch.as_tensor({y}, device=dev))",
        f"{x} == {y}",
        f"{x} != {y}",
        f"{x} < {y}",
        f"{x} >= {y}",
        f"torch.isclose({x}, torch.as_tensor({y}, device=dev), equal_nan=True)",
        f"torch.clamp({x}, {rng.choice(['0', '-1', '0.5', 'None', 'nan'])}, {rng.choice(['1', '0', '2.5', 'inf'])})",
        f"torch.clamp({x}, min=torch.as_tensor({y}, device=dev))",
        f"torch.where({x} > 0, {x}, {y})",
        f"torch.lerp({x}, torch.as_tensor({y}, device=dev), {rng.choice(['0.0', '1.0', '0.3', '0.7'])})",
        f"torch.addcmul({x}, {x}, torch.as_tensor({y}, device=dev), value=2)",
        f"torch.addcdiv({x}, {x}, torch.as_tensor({y}, device=dev), value=2)",
        f"{x}.to({other}) if not ({x}.is_floating_point() and {other} in (U8, I8, I16, I32, I64)) else {x}",
        f"torch.sort({x}, stable=True)",
        f"torch.sort({x}, descending=True, stable=True)",
        f"torch.argsort({x}, stable=True)",
        f"torch.topk({x}, 3)[0]",
        f"torch.topk({x}, 3, largest=False)[0]",
        f"torch.unique({x}, return_counts=True)",
        f"torch.unique_consecutive({x}, return_inverse=True)",
        f"{x}.max()",
        f"{x}.min(0)",
        f"{x}.argmax()",
        f"{x}.argmin()",
        f"torch.aminmax({x})",
        f"{x}.median()",
        f"{x}.nanmedian()",
        f"{x}.mode()[0]",
        f"{x}.kthvalue(2)[0]",
        f"{x}.cummax(0)",
        f"{x}.cummin(0)",
        f"{x}.cumsum(0)",
        f"{x}.cumprod(0)",
        f"{x}.logcumsumexp(0)",
        f"{x}.sum()",
        f"{x}.prod()",
        f"{x}.mean()",
        f"{x}.nansum()",
        f"{x}.nanmean()",
        f"{x}.std()",
        f"{x}.var(unbiased=False)",
        f"{x}.norm({rng.choice(['0', '1', '2', 'inf', '-inf', '3', '0.5'])})",
        f"{x}.logsumexp(0)",
        f"{x}.softmax(0)",
        f"{x}.log_softmax(0)",
        f"{x}.any()",
        f"{x}.all()",
        f"{x}.count_nonzero()",
        f"torch.isin({x}, torch.as_tensor({y}, device=dev))",
        f"torch.histc({x}, 4, min=-2, max=2)",
        f"torch.searchsorted({x}.sort()[0], {x})",
        f"torch.bucketize({x}, data([-1.0, 0.0, 1.0]), right={rng.random() < 0.5})",
        f"torch.nan_to_num({x}, nan={s})",
        f"torch.sign({x})",
        f"torch.signbit({x})",
        f"torch.sgn({x})",
        f"torch.round({x})",
        f"torch.round({x}, decimals={rng.choice([1, -1, 2])})",
        f"torch.frexp({x})",
        f"torch.trunc({x})",
        f"torch.floor({x})",
        f"torch.ceil({x})",
        f"torch.frac({x})",
        f"torch.sqrt({x})",
        f"torch.rsqrt({x})",
        f"torch.reciprocal({x})",
        f"torch.log({x})",
        f"torch.log1p({x})",
        f"torch.exp({x})",
        f"torch.expm1({x})",
        f"torch.square({x})",
        f"torch.abs({x})",
        f"-{x}",
        f"torch.asin({x})",
        f"torch.acosh({x})",
        f"torch.atanh({x})",
        f"torch.tan({x})",
        f"torch.sinc({x})",
        f"torch.erfinv({x})",
        f"torch.logit({x}, eps={rng.choice(['None', '0.1'])})",
        f"torch.lgamma({x})",
        f"torch.digamma({x})",
        f"torch.special.erfcx({x})",
        f"torch.special.entr({x})",
        f"torch.special.i0e({x})",
        f"torch.special.ndtri({x})",
        f"torch.special.log_ndtr({x})",
        f"F.relu({x})",
        f"F.gelu({x})",
        f"F.silu({x})",
        f"F.softplus({x})",
        f"F.elu({x})",
        f"F.hardswish({x})",
        f"F.mish({x})",
        f"F.logsigmoid({x})",
        f"F.softsign({x})",
        f"F.hardtanh({x})",
        f"F.threshold({x}, 0.5, {s})",
        f"F.leaky_relu({x}, {s})",
        f"F.celu({x}, 0.5)",
        f"F.hardshrink({x})",
        f"F.softshrink({x})",
        f"F.relu6({x})",
        f"F.selu({x})",
        f"torch.tanh({x})",
        f"torch.sigmoid({x})",
        f"torch.special.zeta({x}, 2)",
        f"torch.isposinf({x})",
        f"torch.diff({x})",
        f"torch.flip({x}, (0,))",
        f"torch.renorm({x}.view(2, 4), 2, 0, 1.0)",
        f"torch.cdist({x}.view(2, 4), {x}.view(4, 2).mT)",
        f"torch.trapezoid({x})",
        f"torch.cross({x}[:3], {x}[3:6])",
        f"{x}.repeat_interleave(2)",
        f"torch.quantile({x}, 0.3)",
        f"torch.nanquantile({x}, 0.5)",
        f"torch.cov({x}.view(2, 4))",
        f"torch.corrcoef({x}.view(2, 4))",
        f"torch.gradient({x})[0]",
        f"torch.dist({x}, {x} + 1)",
        f"torch.equal({x}, {x})",
    ]
    text = rng.choice(ways)
    if rng.random() < 0.25:
        second = rng.choice(ways)
        if second.startswith("torch.") and f"({x}" in second:
            text = second.replace(f"({x}", f"(({text})", 1)
    b.bind(text, "edge")
    if rng.random() < 0.2:
        target = (b.bind(f"{x}.clone()", "create") or [x])[0]
        method = rng.choice(
            [
                "add_",
                "sub_",
                "mul_",
                "div_",
                "pow_",
                "remainder_",
                "fmod_",
                "floor_divide_",
                "copy_",
                "maximum_" if False else "clamp_",
                "bitwise_xor_",
                "lt_",
                "atan2_",
            ]
        )
        b.write(f"{target}.{method}({y})", target, method)


def losses(b):
    rng = b.rng
    n, c = rng.choice([1, 2, 5, 0] if rng.random() < 0.2 else [2, 5]), rng.choice([1, 2, 3, 7])
    kind = rng.choice(["F32", "F32", "F32", "F64", "BF16", "F16"])
    more = rng.choice([(), (), (3,), (2, 3)])
    x, y = operand(b, (n, c, *more), kind), operand(b, (n, c, *more), kind)
    target = f"(normal({shape_text((n, *more))}, {rng.randrange(99)}).abs() * 2).long().clamp(0, {c - 1})"
    if rng.random() < 0.4:
        target = (b.bind(target, "create") or [target])[0]
    reduction = f"reduction={rng.choice(['mean', 'sum', 'none'])!r}"
    w = f", weight={operand(b, (c,), kind)}.detach().abs()" if rng.random() < 0.4 else ""
    ignore = f", ignore_index={rng.choice([0, 1, -100])}" if rng.random() < 0.5 else ""
    smooth = f", label_smoothing={rng.choice([0.0, 0.1, 1.0])}" if rng.random() < 0.4 else ""
    ways = [
        *[f"F.cross_entropy({x}, {target}{w}{ignore}{smooth}, {reduction})"] * 3,
        f"F.cross_entropy({x}, {y}.softmax(1){w}{smooth}, {reduction})",
        *[f"F.nll_loss({x}.log_softmax(1), {target}{w}{ignore}, {reduction})"] * 2,
        f"F.mse_loss({x}, {y}, {reduction})",
        f"F.l1_loss({x}, {y}, {reduction})",
        f"F.smooth_l1_loss({x}, {y}, {reduction}, beta={rng.choice(['0.0', '0.5', '2.0'])})",
        f"F.huber_loss({x}, {y}, {reduction}, delta=0.5)",
        f"F.binary_cross_entropy({x}.sigmoid(), {y}.sigmoid(), {reduction})",
        f"F.binary_cross_entropy_with_logits({x}, {y}.sigmoid(), {reduction}, pos_weight={rng.choice(['None', f'normal({shape_text(more[-1:] or (c,))}, 1, {kind}).abs()'])})",
        f"F.kl_div({x}.log_softmax(1), {y}.softmax(1), reduction={rng.choice(['batchmean', 'sum', 'none', 'mean'])!r}, log_target={rng.random() < 0.3})",
        f"F.poisson_nll_loss({x}, {y}.abs(), full={rng.random() < 0.5}, {reduction})",
        f"F.gaussian_nll_loss({x}, {y}, {y}.detach().abs(), {reduction})",
        f"F.soft_margin_loss({x}, {y}.sign(), {reduction})",
        f"F.hinge_embedding_loss({x}, {y}.sign(), {reduction})",
        f"F.margin_ranking_loss({x}, {y}, {y}.sign(), margin=0.5, {reduction})",
        f"F.cosine_embedding_loss({x}.flatten(1), {y}.flatten(1), torch.ones({n}, device=dev), {reduction})",
        f"F.triplet_margin_loss({x}, {y}, {x} * 0.5, {reduction})",
        f"F.multi_margin_loss({x}, {target}, {reduction})" if not more else f"F.mse_loss({x}, {y})",
        f"F.multilabel_soft_margin_loss({x}, ({y} > 0).to({kind}), {reduction})",
        f"F.ctc_loss({operand(b, (6, 2, 4), 'F32')}.log_softmax(2), data([[1, 2], [3, 1]], I64), (6, 5), (2, 1), {reduction})",
        f"F.pairwise_distance({x}.flatten(1), {y}.flatten(1), p={rng.choice(['1', '2', '3'])})",
        f"F.cosine_similarity({x}, {y}, dim=1)",
    ]
    b.bind(rng.choice(ways), "loss")


def gradients(b):
    """Whole small programs of autograd."""
    rng = b.rng
    kind = rng.choice(["F32", "F32", "F64"])
    shape = rng.choice([(4,), (3, 4), (2, 3), (5, 5), (1,), ()])
    x = operand(b, shape, kind, grad=True)
    y = operand(b, shape, kind, grad=True)
    out = b.name("h")
    functions = [
        "({x} * {y}).sin()",
        "{x}.tanh() * {y}",
        "({x} + {y}).relu()",
        "{x}.softmax(-1) * {y}",
        "({x} ** 2 + {y}).exp()",
        "torch.where({x} > 0, {x}, {y})",
        "{x}.clone().mul_({y})",
        "{x}[..., :1] + {y}" if shape else "{x} + {y}",
        "torch.cat([{x}.reshape(-1), {y}.reshape(-1)])",
        "{x}.cumsum(-1) * {y}" if shape else "{x}",
        "F.layer_norm({x}, {x}.shape[-1:]) + {y}" if shape else "{y}",
        "{x}.std() + {y}",
        "{x}.max() * {y}",
        "F.normalize({x}, dim=-1) * {y}" if shape else "{x}",
        "F.gelu({x}).mul({y})",
        "{x}.abs().sqrt() + {y}",
        "{x}.flip(0) @ {y}" if len(shape) == 1 else "{x} * {y}",
        "{x} @ {y}.mT" if len(shape) == 2 else "{x} * 2",
    ]
    f = rng.choice(functions).format(x=x, y=y)
    bodies = [
        f"z = {f}\nz.sum().backward(retain_graph=True)\nz.square().sum().backward()\nk = [{x}.grad, {y}.grad]",
        f"for i in range(3):\n    z = {f}\n    z.sum().backward()\nk = [{x}.grad.clone() if {x}.grad is not None else None]",
        f"z = {f}\ng = torch.autograd.grad(z.sum(), [{x}, {y}], create_graph=True, allow_unused=True)\nz = sum(q.square().sum() for q in g if q is not None and q.requires_grad)\nk = dense(torch.autograd.grad(z, [{x}, {y}], allow_unused=True)) if isinstance(z, torch.Tensor) else []",
        f"z = {f}\nz.register_hook(lambda g: g * 2)\nz.sum().backward()\nk = [{x}.grad]",
        f"k = []\nz = {f}\nz.retain_grad()\nz.register_hook(lambda g: k.append(g.detach().clone()))\n(z * z).sum().backward()\nk.append(z.grad)",
        f"h = {x}.register_hook(lambda g: g.clamp(-0.1, 0.1))\n({f}).sum().backward()\nh.remove()\n({f}).sum().backward()\nk = [{x}.grad]",
        f"z = {x}.clone()\nz[..., :1] = {y}[..., :1] * 2\nz.mul_({y})\nz.sum().backward()\nk = [{x}.grad, {y}.grad]"
        if shape
        else f"z = {x}.clone().add_({y})\nz.backward()\nk = [{x}.grad]",
        f"z = {x} * 1\nw = z.view(-1)\nw.mul_(2)\n(z * {y}).sum().backward()\nk = [{x}.grad, {y}.grad]",
        f"z = {x} * 1\nw = z[..., :2] if z.dim() else z\nz.add_({y})\n(w * w).sum().backward()\nk = [{x}.grad, {y}.grad]",
        f"with torch.no_grad():\n    {x}.sub_(0.1)\n({f}).sum().backward()\nwith torch.no_grad():\n    {x}.sub_({x}.grad if {x}.grad is not None else 0)\nk = [{x}.detach().clone()]",
        f"z = Mutating.apply({x} * 1)\n(z * {y}).sum().backward()\nk = [{x}.grad, {y}.grad]",
        f"a, c = Several.apply({x}, {y})\n(a * 2).sum().backward()\nk = [{x}.grad, {y}.grad, a, c.requires_grad]",
        f"z = Viewing.apply({x} * 1)\n(z * 3).sum().backward()\nk = [{x}.grad]",
        f"z = {f}\ntry:\n    z.backward()\nexcept RuntimeError as error:\n    k = [type(error).__name__]\nelse:\n    k = [{x}.grad]",
        f"z = {f}\nq = z.detach()\nq.zero_()\ntry:\n    (z * z).sum().backward()\n    k = [{x}.grad]\nexcept RuntimeError as error:\n    k = [type(error).__name__]",
        f"z = checkpoint(lambda a, c: ({f.replace(x, 'a').replace(y, 'c')}), {x}, {y}, use_reentrant=False)\nz.sum().backward()\nk = [{x}.grad, {y}.grad]",
        f"with torch.autograd.graph.save_on_cpu():\n    z = {f}\nz.sum().backward()\nk = [{x}.grad]",
        f"with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):\n    z = {f}\nz.sum().backward()\nk = [{x}.grad]",
        f"with torch.autograd.set_detect_anomaly(True):\n    z = {f}\n    z.sum().backward()\nk = [{x}.grad]",
        f"{x}.grad = torch.ones_like({x})\n({f}).sum().backward()\nk = [{x}.grad]",
        f"({f}).sum().backward()\n{x}.grad.zero_() if {x}.grad is not None else None\n({f}).sum().backward()\nk = [{x}.grad]",
        f"z = {f}\nz.backward(torch.ones_like(z).expand_as(z), inputs=[{x}])\nk = [{x}.grad, {y}.grad]",
        f"k = torch.autograd.grad([{f}], [{x}], grad_outputs=[torch.ones_like({f}) * 2], allow_unused=True, materialize_grads=True)",
        f"k = torch.func.vjp(lambda a, c: {f.replace(x, 'a').replace(y, 'c')}, {x}.detach(), {y}.detach())[0]",
        f"k = torch.func.grad_and_value(lambda a: ({f.replace(x, 'a')}).sum())({x}.detach())",
        f"k = torch.func.hessian(lambda a: ({f.replace(x, 'a')}).sum())({x}.detach())",
        f"k = torch.func.jacfwd(lambda a: {f.replace(x, 'a')})({x}.detach())",
        f"k = torch.autograd.functional.hvp(lambda a: ({f.replace(x, 'a')}).sum(), {x}.detach(), torch.ones_like({x}))",
        f"def g(a):\n    a = a.clone()\n    a.mul_(2)\n    a[..., :1] = 0\n    return a\nk = torch.vmap(g)({x}.detach())"
        if len(shape) > 1
        else f"k = {x}.sin()",
        f"k = torch.vmap(lambda a, c: a * c + a.sum(), in_dims=(0, None))({x}.detach(), {y}.detach())"
        if shape
        else f"k = {x}.cos()",
        f"k = torch.func.functional_call(nn.Linear({shape[-1]}, 2).to(dev, {kind}), {{'weight': normal((2, {shape[-1]}), 1, {kind}), 'bias': normal((2,), 2, {kind})}}, ({x},))"
        if shape
        else f"k = {x}.cos()",
        f"z = {x}.unbind(0) if {x}.dim() else ({x},)\nsum((q * i).sum() for i, q in enumerate(z)).backward()\nk = [{x}.grad]",
        f"z = {x}.split(1) if {x}.dim() else ({x},)\nz[0].sum().backward()\nk = [{x}.grad]",
        f"z = ({x} * 2).expand(3, *{x}.shape)\n(z * {y}).sum().backward()\nk = [{x}.grad, {y}.grad]",
    ]
    body = rng.choice(bodies)
    b.add(
        f"{body}\n{out} = list(k) if isinstance(k, (list, tuple)) else [k]\nz = w = q = g = h = a = c = k = None\ndel z, w, q, g, h, a, c, k"
    )


RNNS = [
    "nn.LSTM(4, 3{more})",
    "nn.GRU(4, 3{more})",
    "nn.RNN(4, 3{more})",
    "nn.RNN(4, 3, nonlinearity='relu'{more})",
    "nn.LSTM(4, 5, proj_size=2{more})",
]


def recurrent(b):
    rng = b.rng
    name = b.name("m")
    more = "".join(
        m
        for m in (", bidirectional=True", ", num_layers=2", ", bias=False", ", batch_first=True")
        if rng.random() < 0.35
    )
    b.add(f"{name} = module({rng.choice(RNNS).format(more=more)}, {rng.randrange(99)})")
    if name not in b.namespace:
        return
    batch, length = rng.choice([1, 2, 3]), rng.choice([1, 2, 5])
    x = operand(b, (batch, length, 4) if "batch_first" in more else (length, batch, 4))
    way = rng.random()
    if way < 0.4:
        b.bind(f"{name}({x})[0]", "rnn")
    elif way < 0.8:
        lengths = sorted((rng.randint(1, length) for _ in range(batch)), reverse=rng.random() < 0.7)
        first = "batch_first" in more
        b.bind(
            f"nn.utils.rnn.pad_packed_sequence({name}(nn.utils.rnn.pack_padded_sequence({x}, {lengths}, batch_first={first}, enforce_sorted=False))[0], batch_first={first})[0]",
            "rnn",
        )
    else:
        b.bind(f"{name}({x})[1]", "rnn")


STEPS = {scattering: 10, edges: 14, losses: 8, gradients: 10, recurrent: 3}
