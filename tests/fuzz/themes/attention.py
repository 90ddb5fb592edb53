"""Attention, written out and as torch's function: masks of all sorts, caches, odd sizes."""
# ruff: noqa: E501 - statements of programs are longer than lines of code.

from fuzz.literal import shape_text
from fuzz.themes.layouts import floating, operand

LENGTHS = [1, 2, 3, 5, 7, 8, 9, 16, 17, 33, 0]
LONG = [63, 64, 65, 127, 128, 129, 130]
HEADS = [1, 3, 4, 8, 16, 17, 33]


def sizes(b):
    rng = b.rng
    batch, heads = (
        rng.choice([1, 1, 2, 3, 0] if rng.random() < 0.2 else [1, 2]),
        rng.choice([1, 2, 4]),
    )
    length = rng.choice(LENGTHS)
    others = rng.choice([length, length, rng.choice(LENGTHS)])
    if rng.random() < 0.2:
        batch, heads = 1, 1
        length, others = rng.choice(LONG), rng.choice(LONG)
    size = rng.choice(HEADS)
    return batch, heads, length, others, size, rng.choice([size, size, size, rng.choice(HEADS)])


def heads_of(b, batch, heads, length, size, kind) -> str:
    rng = b.rng
    if rng.random() < 0.5:
        return operand(b, (batch, heads, length, size), kind)
    flat = operand(b, (batch, length, heads * size), kind)
    text = f"{flat}.view({batch}, {length}, {heads}, {size}).transpose(1, 2)"
    if rng.random() < 0.5:
        return text
    return (b.bind(text, "view") or [flat])[0]


def mask(b, batch, heads, length, others, kind) -> str:
    rng = b.rng
    shape = rng.choice(
        [
            (length, others),
            (1, 1, length, others),
            (batch, 1, 1, others),
            (batch, 1, length, others),
            (batch, heads, length, others),
            (1, heads, length, 1),
            (1, others),
        ]
    )
    boolean = rng.choice(
        [
            f"torch.ones({length}, {others}, dtype=torch.bool, device=dev).tril({rng.choice([-1, 0, 1, 2])})",
            f"(normal({shape_text(shape)}, {rng.randrange(99)}) > {rng.choice(['-0.5', '0', '1', '9'])})",
            f"(torch.arange({others}, device=dev)[None] <= torch.arange({length}, device=dev)[:, None] + {rng.randrange(-1, 3)})",
        ]
    )
    way = rng.random()
    if way < 0.4:
        text = boolean
    elif way < 0.6:
        text = f"torch.zeros(1, 1, dtype={kind}, device=dev).masked_fill(~{boolean}, {rng.choice(['-inf', 'torch.finfo(' + kind + ').min', '-1e4'])})"
    elif way < 0.7:
        text = f"torch.where({boolean}, 0.0, -inf).to({kind})"
    elif way < 0.8:
        text = f"torch.full({shape_text(shape)}, -inf, dtype={kind}, device=dev).triu(1)"
    else:
        text = operand(b, shape, kind)
    if rng.random() < 0.5:
        return text
    return (b.bind(text, "mask") or ["None"])[0]


def fused(b):
    """torch's function."""
    rng, kind = b.rng, floating(b)
    batch, heads, length, others, size, out = sizes(b)
    q = heads_of(b, batch, heads, length, size, kind)
    grouped = heads % 2 == 0 and rng.random() < 0.25
    few = heads // 2 if grouped else heads
    k, v = heads_of(b, batch, few, others, size, kind), heads_of(b, batch, few, others, out, kind)
    if rng.random() < 0.1:
        v = k
    if rng.random() < 0.1:
        k, v = f"{k}[:, :1].expand(-1, {few}, -1, -1)", f"{v}[:, :1].expand(-1, {few}, -1, -1)"
    more = []
    if rng.random() < 0.25:
        more.append("is_causal=True")
    elif rng.random() < 0.7:
        more.append(f"attn_mask={mask(b, batch, heads, length, others, kind)}")
    if rng.random() < 0.2:
        more.append(f"scale={rng.choice(['1.0', '0.1', '2'])}")
    if grouped:
        more.append("enable_gqa=True")
    call = f"F.scaled_dot_product_attention({', '.join([q, k, v, *more])})"
    call += rng.choice(
        ["", "", f".transpose(1, 2).reshape({batch}, {length}, {heads * out})", ".sum(-1)"]
    )
    b.bind(call, "attention")


def written_out(b):
    rng, kind = b.rng, floating(b)
    batch, heads, length, others, size, out = sizes(b)
    q = heads_of(b, batch, heads, length, size, kind)
    k, v = (
        heads_of(b, batch, heads, others, size, kind),
        heads_of(b, batch, heads, others, out, kind),
    )
    scale = rng.choice([f"{size} ** -0.5", "0.5", "8.0", f"{size**0.5}"])
    scores = rng.choice(
        [
            f"({q} @ {k}.transpose(-2, -1)) * {scale}",
            f"({q} * {scale}) @ {k}.mT",
            f"torch.matmul({q}, {k}.transpose(2, 3)) / {scale}",
            f"torch.einsum('bhld,bhsd->bhls', {q}, {k}) * {scale}",
            f"torch.einsum('bhld,bhsd->bhls', {q} * {scale}, {k})",
        ]
    )
    if rng.random() < 0.75:
        m = mask(b, batch, heads, length, others, kind)
        boolean = b.ask(m)
        if getattr(boolean, "dtype", None) is not None and str(boolean.dtype) == "torch.bool":
            scores = rng.choice(
                [
                    f"({scores}).masked_fill(~{m}, -inf)",
                    f"({scores}).masked_fill({m}, torch.finfo({kind}).min)",
                    f"torch.where({m}, {scores}, -1e4)",
                    f"torch.where({m}, {scores}, torch.tensor(-inf, dtype={kind}, device=dev))",
                ]
            )
        else:
            scores = f"({scores}) + {m}"
    if rng.random() < 0.4:
        scores = (b.bind(scores, "scores") or [scores])[0]
    weights = rng.choice(
        [
            f"F.softmax({scores}, -1)",
            f"torch.softmax({scores}, dim=-1, dtype=F32).to({kind})",
            f"({scores}).float().softmax(-1).to({kind})",
            f"F.softmax({scores}, -1).nan_to_num(0.0)",
            f"F.dropout(F.softmax({scores}, -1), 0.0)",
            f"(lambda s: (s - s.amax(-1, keepdim=True)).exp())({scores})",
            f"(lambda s: (s - s.logsumexp(-1, keepdim=True)).exp())({scores})",
            f"F.log_softmax({scores}, -1).exp()",
        ]
    )
    if rng.random() < 0.3:
        weights = (b.bind(weights, "weights") or [weights])[0]
    result = rng.choice(
        [
            f"{weights} @ {v}",
            f"torch.einsum('bhls,bhsd->bhld', {weights}, {v})",
            f"torch.einsum('bhls,bhsd->blhd', {weights}, {v})",
        ]
    )
    result = f"({result})" + rng.choice(
        ["", "", f".transpose(1, 2).contiguous().view({batch}, {length}, {heads * out})"]
    )
    b.bind(result, "attention")


def module(b):
    """nn.MultiheadAttention with its masks."""
    rng = b.rng
    length, others, batch = rng.choice(LENGTHS[:8]), rng.choice(LENGTHS[:8]), rng.choice([1, 2, 3])
    first = rng.random() < 0.5
    given = rng.choice(
        ["", ", bias=False", ", add_bias_kv=True", ", add_zero_attn=True", ", kdim=3, vdim=5"]
    )
    name = b.name("m")
    b.add(
        f"{name} = module(nn.MultiheadAttention(8, {rng.choice([1, 2, 4])}, batch_first={first}{given}), {rng.randrange(99)})"
    )
    if name not in b.namespace:
        return
    if rng.random() < 0.3:
        b.add(f"{name}.eval()")

    def tokens(count, size=8):
        return operand(b, (batch, count, size) if first else (count, batch, size))

    q = tokens(length)
    if "kdim" in given:
        k, v = tokens(others, 3), tokens(others, 5)
    elif rng.random() < 0.5:
        k, v, others = q, q, length
    else:
        k = tokens(others)
        v = k if rng.random() < 0.5 else tokens(others)
    more = []
    if rng.random() < 0.4:
        more.append(
            f"key_padding_mask=torch.arange({others}, device=dev)[None] >= data({[rng.randint(0 if rng.random() < 0.2 else 1, others) for _ in range(batch)]}, I64)[:, None]"
        )
    if rng.random() < 0.4:
        more.append(
            f"attn_mask=torch.ones({length}, {others}, dtype=torch.bool, device=dev).triu(1)"
        )
    if rng.random() < 0.4:
        more.append(f"need_weights={rng.random() < 0.5}")
    if rng.random() < 0.2:
        more.append("average_attn_weights=False")
    b.bind(f"{name}({', '.join([q, k, v, *more])})", "MultiheadAttention")


def cache(b):
    """Tokens one by one: keys and values grow, or are written in place."""
    rng, kind = b.rng, floating(b)
    heads, size, steps = rng.choice([1, 2]), rng.choice([1, 3, 4, 16]), rng.choice([3, 6, 9])
    out, store = b.name("k"), b.name()
    seed = rng.randrange(99)
    most = steps + rng.choice([0, 2])
    token = f"normal((1, {heads}, 1, {size}), {seed} + i, {kind})"
    ways = {
        "cat": (
            [f"{store} = torch.zeros(1, {heads}, 0, {size}, dtype={kind}, device=dev)"],
            [
                f"{store} = torch.cat([{store}, t], 2)",
                f"y = F.scaled_dot_product_attention(t, {store}, {store})",
            ],
        ),
        "slice": (
            [f"{store} = torch.zeros(1, {heads}, {most}, {size}, dtype={kind}, device=dev)"],
            [
                f"{store}[:, :, i:i + 1] = t",
                f"y = F.scaled_dot_product_attention(t, {store}[:, :, :i + 1], {store}[:, :, :i + 1])",
            ],
        ),
        "index_copy": (
            [f"{store} = torch.zeros(1, {heads}, {most}, {size}, dtype={kind}, device=dev)"],
            [
                f"{store}.index_copy_(2, torch.tensor([i], device=dev), t)",
                f"m = (torch.arange({most}, device=dev) <= i)[None, None, None]",
                f"y = F.scaled_dot_product_attention(t, {store}, {store}, attn_mask=m)",
            ],
        ),
        "masked": (
            [f"{store} = torch.zeros(1, {heads}, {most}, {size}, dtype={kind}, device=dev)"],
            [
                f"{store}[:, :, i] = t[:, :, 0]",
                f"s = (t @ {store}.mT) * 0.5",
                f"s = s.masked_fill(torch.arange({most}, device=dev) > i, -inf)",
                f"y = s.softmax(-1) @ {store}",
            ],
        ),
        "roll": (
            [f"{store} = torch.zeros(1, {heads}, {most}, {size}, dtype={kind}, device=dev)"],
            [
                f"{store} = torch.cat([{store}[:, :, 1:], t], 2)",
                f"y = F.scaled_dot_product_attention(t, {store}, {store})",
            ],
        ),
    }
    before, body = ways[rng.choice(list(ways))]
    read = rng.choice(
        [
            f"{out}.append(y)",
            f"{out}.append(y.sum().item())",
            f"{out}.append(y.clone())",
            f"if i % 2: {out}.append(y.argmax().item())",
            f"{out}.append(y.cpu())",
        ]
    )
    lines = [
        f"{out} = []",
        *before,
        "with torch.no_grad():",
        f"    for i in range({steps}):",
        f"        t = {token}",
    ]
    lines += [f"        {line}" for line in [*body, read]]
    b.add("\n".join([*lines, "del t, y"]))
    b.producer[store] = "cache"


STEPS = {fused: 8, written_out: 8, module: 3, cache: 3}
