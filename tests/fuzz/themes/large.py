"""Tensors of many elements, in all layouts: what is cut into chunks, tiles and vectors with a rest."""
# ruff: noqa: E501 - statements of programs are longer than lines of code.

from fuzz.literal import shape_text
from fuzz.themes.layouts import floating, laid_out

SHAPES = [
    (1023,),
    (4097,),
    (65537,),
    (100003,),
    (257, 129),
    (31, 1031),
    (1031, 31),
    (3, 20011),
    (20011, 3),
    (2, 50021),
    (513, 257),
    (1, 70001),
    (70001, 1),
    (7, 65, 129),
    (65, 7, 129),
    (129, 65, 7),
    (2, 300, 33),
    (5, 1, 4099),
    (64, 64, 64),
    (3, 5, 7, 257),
    (16, 3, 33, 33),
    (2, 64, 17, 17),
]


def made(b, shape, kind, grad=None) -> str:
    same = [
        n
        for n in b.tensors(lambda x: tuple(x.shape) == tuple(shape))
        if str(b.get(n).dtype) == DTYPE[kind]
    ]
    if same and b.rng.random() < 0.5:
        return b.rng.choice(same)
    text = laid_out(b, shape, kind)
    if (b.wants_grad and b.rng.random() < 0.5 if grad is None else grad) and kind in FLOATS:
        text += ".detach().requires_grad_()"
    return (b.bind(text, "create") or ["None"])[0]


FLOATS = ("F32", "F64", "BF16", "F16")
DTYPE = {
    "F32": "torch.float32",
    "F64": "torch.float64",
    "BF16": "torch.bfloat16",
    "F16": "torch.float16",
    "I64": "torch.int64",
    "I32": "torch.int32",
    "BOOL": "torch.bool",
    "U8": "torch.uint8",
}


def kind_of(b):
    return floating(b) if b.rng.random() < 0.85 else b.rng.choice(["I64", "I32", "BOOL", "U8"])


def dims(b, shape, text=True):
    n = b.rng.randint(1, len(shape))
    return tuple(sorted(b.rng.sample(range(len(shape)), n)))


def broadcastable(b, shape):
    return tuple(1 if b.rng.random() < 0.4 else s for s in shape)


def pointwise(b, x, shape, kind, depth=2) -> str:
    rng = b.rng
    text = x
    for _ in range(rng.randint(0, depth)):
        y = (
            made(b, broadcastable(b, shape), kind)
            if rng.random() < 0.5
            else rng.choice(["2", "0.5", x])
        )
        if kind in FLOATS:
            text = rng.choice(
                [
                    f"({text} + {y})",
                    f"({text} * {y})",
                    f"torch.tanh({text})",
                    f"({text} - {y})",
                    f"F.relu({text})",
                    f"F.gelu({text})",
                    f"torch.sigmoid({text})",
                    f"({text}).exp().clamp(max=9)",
                    f"torch.where({text} > 0, {text}, {y})",
                    f"({text} / ({x}.abs() + 1))",
                    f"({text}).abs().sqrt()",
                ]
            )
        elif kind == "BOOL":
            text = rng.choice([f"~({text})", f"({text} & {x})", f"({text} ^ {x})"])
        else:
            text = rng.choice(
                [
                    f"({text} + {x})",
                    f"({text} * 3)",
                    f"({text} // 2)",
                    f"({text} & {x})",
                    f"({text}).clamp(0, 9)",
                ]
            )
    return text


def reduction(b):
    rng, kind, shape = b.rng, kind_of(b), b.rng.choice(SHAPES)
    x = pointwise(b, made(b, shape, kind), shape, kind)
    d = dims(b, shape)
    one = rng.randrange(len(shape))
    keep = rng.choice(["", ", keepdim=True"])
    ways = [
        f"({x}).sum({d}{keep})",
        f"({x}).amax({d}{keep})",
        f"({x}).amin({d})",
        f"({x}).argmax({one}{keep})",
        f"({x}).argmin({one})",
        f"({x}).any({one})",
        f"({x}).all({one})",
        f"({x}).sum()",
        f"({x}).max({one})",
        f"({x}).min({one})",
        f"({x}).max()",
        f"({x}).argmax()",
        f"({x}).count_nonzero({one})",
        f"({x}).cumsum({one})",
        f"({x}).sort({one}, stable=True)",
        f"({x}).topk(min(5, ({x}).shape[{one}]), {one})[0]",
        f"({x}).cummax({one})",
        f"({x}).unique(return_counts=True)" if kind not in FLOATS else f"({x}).median({one})[0]",
    ]
    if kind in FLOATS:
        ways += [
            f"({x}).mean({d}{keep})",
            f"({x}).var({d}{keep})",
            f"({x}).std({one})",
            f"torch.var_mean({x}, {d})",
            f"({x}).softmax({one})",
            f"({x}).log_softmax({one})",
            f"({x}).logsumexp({d})",
            f"({x}).norm(dim={d})",
            f"torch.linalg.vector_norm({x}, {rng.choice(['1', '3', 'inf', '0'])}, {d})",
            f"F.layer_norm({x}, {shape_text(shape[one:])})",
            f"F.rms_norm({x}, {shape_text(shape[one:])})",
            f"F.normalize({x}, dim={one})",
            f"({x}).prod({one})",
            f"({x}).nansum({d})",
            f"({x}).logcumsumexp({one})",
            f"({x} - ({x}).mean({d}, keepdim=True)).square().sum({d})",
            f"({x}).sum({d}, keepdim=True) * {x}",
            f"({x}).softmax({one}).sum({d})",
            f"({x}).cumsum({one}).amax({d})",
            f"({x} * ({x}).mean({one}, keepdim=True)).sum({d})",
        ] * 2
        if len(shape) > 1:
            ways += [f"F.batch_norm({x}, None, None, training=True)"] * 2
        if len(shape) > 2:
            ways += [f"F.group_norm({x}, 1)", f"F.instance_norm({x})"]
    b.bind(rng.choice(ways), "large")


def moving(b):
    rng, kind, shape = b.rng, kind_of(b), b.rng.choice(SHAPES)
    x = made(b, shape, kind)
    text = pointwise(b, x, shape, kind)
    one = rng.randrange(len(shape))
    n = shape[one]
    order = list(range(len(shape)))
    rng.shuffle(order)
    count = rng.choice([1, 100, 5000])
    index = f"(torch.arange({count}, device=dev) * {rng.choice([1, 7, 31])} % {n})"
    source = (*shape[:one], count, *shape[one + 1 :])
    size = 1
    for s in source:
        size *= s
    ways = [
        f"({text}).permute({order}).contiguous()",
        f"({text}).permute({order}).reshape(-1)",
        f"({text}).flip({one})",
        f"({text}).roll({rng.choice([1, n // 2])}, {one})",
        f"torch.cat([{text}, {x}], {one})",
        f"torch.stack([{text}, {x}], {one})",
        f"({text}).transpose(0, -1) + 1",
        f"F.pad({text}, (1, 2))",
        f"({text}).tril()" if len(shape) > 1 else f"({text}) + 1",
        f"({text}).repeat_interleave(2, {one})",
        f"({text}).unfold({one}, min(3, {n}), 2).sum(-1)",
        f"({text})[..., ::3].contiguous()",
        f"({text}).to(BF16)",
        f"({text}).to(F64)" if kind != "F64" else f"({text}).to(F32)",
        f"({text}).nonzero()",
        f"({text})[{x} > 0]",
        f"torch.diff({text}, dim={one})",
        f"({text}).expand(2, *({text}).shape).sum(0)",
    ]
    if size < 300000:
        ways += [
            f"({text}).index_select({one}, {index})",
            f"({text}).index_add({one}, {index}, {made(b, source, kind, grad=False)})",
            f"({text}).gather({one}, {index}.view({', '.join('-1' if i == one else '1' for i in range(len(shape)))}).expand({shape_text(source)}))",
            f"({text}).scatter_add({one}, {index}.view({', '.join('-1' if i == one else '1' for i in range(len(shape)))}).expand({shape_text(source)}), {made(b, source, kind)})",
            f"({text})[{', '.join([':'] * one + [index])}]",
            f"({text}).index_copy({one}, torch.arange(min({count}, {n}), device=dev).flip(0), ({text}).narrow({one}, 0, min({count}, {n})))",
        ]
        if kind in FLOATS:
            ways += (
                [
                    f"({text}).index_reduce({one}, {index}, {made(b, source, kind)}, 'amax')",
                    f"F.embedding({index}, ({text}).reshape({n}, -1))",
                ]
                if one == 0
                else [
                    f"({text}).scatter_reduce({one}, {index}.view({', '.join('-1' if i == one else '1' for i in range(len(shape)))}).expand({shape_text(source)}), {made(b, source, kind)}, 'mean')"
                ]
            )
    b.bind(rng.choice(ways), "moving")


def writing(b):
    rng, kind, shape = b.rng, kind_of(b), b.rng.choice(SHAPES)
    x = made(b, shape, kind, grad=False)
    if b.get(x).requires_grad:
        x = (b.bind(f"{x}.detach().clone()", "create") or [x])[0]
    y = made(b, broadcastable(b, shape), kind)
    one = rng.randrange(len(shape))
    value = rng.choice([f"{y}.detach()", "1", "2"])
    ways = [
        f"{x}.mul_({value})",
        f"{x}[{', '.join([':'] * one + ['::2'])}] = 1",
        f"{x}[{', '.join([':'] * one + ['1:'])}] += 1",
        f"{x}.transpose(0, -1).add_(1)",
        f"{x}.narrow({one}, 0, {max(1, shape[one] // 2)}).zero_()",
        f"{x}.copy_({value})" if "detach" in value else f"{x}.fill_(2)",
        f"{x}.flip({one}).add_(1)",
        f"{x}.masked_fill_({x} > 0, 1)",
        f"{x}.add_({value})",
        f"{x}.reshape(-1)[::5].fill_(1)",
        f"{x}.clamp_(0, 1)",
        f"{x}.unbind({one})[0].fill_(1)" if shape[one] < 100 else f"{x}.zero_()",
    ]
    text = rng.choice(ways)
    if kind == "BOOL" and ("add_" in text or "+=" in text or "clamp" in text or "mul_" in text):
        return
    b.write(text, x, "writing")


def network(b):
    rng, kind = b.rng, b.rng.choice(["F32", "F32", "F32", "BF16", "F64"])
    way = rng.choice(
        ["linear", "linear", "conv", "attention", "pool", "bmm", "resize", "loss", "depthwise"]
    )
    if way == "linear":
        m, k, n = (rng.choice([1, 7, 33, 64, 127, 128, 250, 511]) for _ in range(3))
        x, w = made(b, (m, k), kind), made(b, (n, k), kind)
        bias = f", {made(b, (n,), kind)}" if rng.random() < 0.6 else ""
        text = f"F.linear({x}, {w}{bias})"
        text = rng.choice(
            [
                text,
                f"F.gelu({text})",
                f"F.relu({text}) + {made(b, (m, n), kind)}",
                f"F.layer_norm({text}, ({n},))",
                f"F.softmax({text}, -1)",
                f"({text}).sum(0)",
                f"({text}).square().mean(-1)",
                f"({text}).t().contiguous()",
            ]
        )
    elif way == "bmm":
        n, m, k, p = (
            rng.choice([1, 3, 16]),
            rng.choice([1, 17, 64, 130]),
            rng.choice([1, 16, 65]),
            rng.choice([1, 17, 64, 129]),
        )
        text = rng.choice(
            [
                f"torch.bmm({made(b, (n, m, k), kind)}, {made(b, (n, k, p), kind)})",
                f"torch.baddbmm({made(b, (n, 1, p), kind)}, {made(b, (n, m, k), kind)}, {made(b, (n, k, p), kind)}, beta=0.5)",
                f"({made(b, (n, m, k), kind)} @ {made(b, (n, p, k), kind)}.mT).softmax(-1)",
            ]
        )
    elif way in ("conv", "depthwise"):
        c, o, s, f = (
            rng.choice([3, 16, 33, 64]),
            rng.choice([8, 16, 33, 64]),
            rng.choice([7, 17, 32]),
            rng.choice([1, 3, 5]),
        )
        g = 1
        if way == "depthwise":
            g, o = c, c
        x, w = made(b, (2, c, s, s), kind), made(b, (o, c // g, f, f), kind)
        if rng.random() < 0.4:
            x = f"{x}.contiguous(memory_format=torch.channels_last)"
        text = f"F.conv2d({x}, {w}, {made(b, (o,), kind) if rng.random() < 0.5 else 'None'}, stride={rng.choice([1, 2])}, padding={f // 2}, groups={g})"
        text = rng.choice(
            [
                text,
                f"F.relu({text})",
                f"F.batch_norm({text}, None, None, training=True)",
                f"F.max_pool2d({text}, 2)",
                f"F.silu({text}).mean((2, 3))",
                f"F.batch_norm({text}, torch.zeros({o}, device=dev, dtype={kind}), torch.ones({o}, device=dev, dtype={kind}) * 2)",
            ]
        )
    elif way == "attention":
        h, n, s, e = (
            rng.choice([1, 2, 4]),
            rng.choice([65, 128, 200]),
            rng.choice([65, 128, 257]),
            rng.choice([8, 33, 64]),
        )
        q, k, v = (
            made(b, (2, h, n, e), kind),
            made(b, (2, h, s, e), kind),
            made(b, (2, h, s, e), kind),
        )
        text = rng.choice(
            [
                f"F.scaled_dot_product_attention({q}, {k}, {v})",
                f"F.scaled_dot_product_attention({q}, {k}, {v}, is_causal=True)",
                f"(({q} @ {k}.mT) * 0.1).softmax(-1) @ {v}",
                f"F.scaled_dot_product_attention({q}, {k}, {v}, attn_mask=(torch.arange({s}, device=dev)[None] <= torch.arange({n}, device=dev)[:, None] + {rng.choice([0, 1, 30])}))",
            ]
        )
    elif way == "pool":
        x = made(b, (2, rng.choice([3, 17, 64]), 33, rng.choice([32, 35])), kind)
        text = rng.choice(
            [
                f"F.max_pool2d({x}, 3, 2, 1)",
                f"F.avg_pool2d({x}, 3, 2, 1)",
                f"F.adaptive_avg_pool2d({x}, (7, 5))",
                f"F.adaptive_avg_pool2d({x}, 1)",
                f"F.max_pool2d({x}, 2, return_indices=True)",
                f"F.adaptive_max_pool2d({x}, 5)",
            ]
        )
    elif way == "resize":
        x = made(b, (2, rng.choice([3, 16]), 33, rng.choice([32, 35])), kind)
        mode = rng.choice(["nearest", "bilinear", "bicubic", "area"])
        text = f"F.interpolate({x}, size=({rng.choice([16, 66, 50])}, {rng.choice([16, 70, 31])}), mode={mode!r})"
    else:
        n, c = rng.choice([100, 1000]), rng.choice([10, 257, 1000])
        x = made(b, (n, c), kind)
        text = rng.choice(
            [
                f"F.cross_entropy({x}, torch.arange({n}, device=dev) % {c}, label_smoothing={rng.choice(['0.0', '0.1'])})",
                f"F.cross_entropy({x}, torch.arange({n}, device=dev) % {c}, ignore_index=3, reduction='none')",
                f"F.kl_div({x}.log_softmax(-1), {made(b, (n, c), kind)}.softmax(-1), reduction='batchmean')",
                f"F.mse_loss({x}, {made(b, (n, c), kind)})",
            ]
        )
    b.bind(text, "network")


STEPS = {reduction: 8, moving: 6, writing: 3, network: 5}
