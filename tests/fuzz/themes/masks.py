"""Masks as indices: kept, computed anew, written, of views; what they pick, and what is written there."""
# ruff: noqa: E501 - statements of programs are longer than lines of code.

import torch

from fuzz.literal import shape_text
from fuzz.themes.layouts import laid_out, operand

SHAPES = [
    (4,),
    (3, 4),
    (5, 5),
    (2, 3, 4),
    (6, 1),
    (1, 4),
    (16,),
    (2, 3, 2, 5),
    (0,),
    (0, 3),
    (7, 30),
]
KINDS = ["F32"] * 6 + ["F64", "BF16", "F16", "I64", "I32", "U8", "BOOL", "I8", "C64"]


def mask(b, shape) -> str:
    """A variable's name, of this shape; mostly of one that is there already."""
    rng, shape = b.rng, tuple(shape)
    same = b.tensors(lambda x: x.dtype in (torch.bool, torch.uint8) and tuple(x.shape) == shape)
    if same and rng.random() < 0.6:
        return rng.choice(same)
    made = f"({laid_out(b, shape)} > {rng.choice(['0', '0', '1', '-1', '9', '-9'])})"
    if rng.random() < 0.1:
        made += ".to(U8)"
    return (b.bind(made, "mask") or ["None"])[0]


def place(b, shape) -> str:
    """What stands in brackets: a mask for some dimensions, perhaps beside other indices."""
    rng = b.rng
    first = rng.randrange(len(shape))
    dims = rng.randint(1, len(shape) - first)
    m = mask(b, shape[first : first + dims])
    before = ", ".join(rng.choice([":"] * 4 + ["::2"]) for _ in range(first))
    if "::2" in before and dims < len(shape):
        before = before.replace("::2", ":")
    behind = shape[first + dims :]
    more = ""
    if behind and rng.random() < 0.25:
        more = ", " + rng.choice(["0", "-1", "None", "...", "data([0], I64)", "1:"])
    return f"{before + ', ' if before else ''}{m}{more}"


def picking(b):
    rng = b.rng
    shape = rng.choice(SHAPES)
    x = operand(b, shape, rng.choice(KINDS))
    index = place(b, shape)
    m = mask(b, shape)
    part = mask(b, tuple(n if rng.random() < 0.7 else 1 for n in shape))
    order = list(range(len(shape)))
    rng.shuffle(order)
    order = ", ".join(map(str, order))
    ways = [
        f"{x}[{index}]",
        f"{x}[{index}]",
        f"{x}.permute({order})[{m}.permute({order})]",
        f"{x}[{m}].sum()",
        f"{x}[{m}, None]",
        f"{x}.masked_select({m})",
        f"{x}.masked_select({part})",
        f"torch.masked_select({x}, {m}.bool()) * 2",
        f"{x}[~{m}.bool()]",
        f"{x}[{m}] * {x}[{m}]",
        f"{m}.nonzero()",
        f"torch.where({m})",
        f"torch.argwhere({x})",
        f"{x}[torch.where({m})]",
        f"{x}[{m}.cpu()]",
        f"{x}[{m}][:1]",
    ]
    b.bind(rng.choice(ways), "pick")


def writing(b):
    rng = b.rng
    shape, kind = rng.choice(SHAPES), rng.choice(KINDS)
    x = operand(b, shape, kind, grad=False)
    index = place(b, shape)
    m = mask(b, shape)
    picked = b.ask(f"tuple({x}[{index}].shape)")
    if isinstance(picked, Exception):
        return
    wide = tuple(n if rng.random() < 0.6 else 1 for n in picked)[rng.randrange(len(picked) + 1) :]
    y = operand(b, wide, kind)
    whole = operand(b, shape, kind)
    writes = [
        f"{x}[{index}] = {y}",
        f"{x}[{index}] = {y}.detach()",
        f"{x}[{index}] = {rng.choice(['0', '1', 'True'])}",
        f"{x}[{index}] += {y}.detach()",
        f"{x}[{m}] = {whole}[{m}]",
        f"{x}[{m}] = {whole}.detach()[{m}] * 2",
        f"{x}.index_put_(({m},), {whole}.detach()[{m}], accumulate={rng.random() < 0.5})",
        f"{x}.masked_fill_({m}, 2)",
        f"{x}.masked_scatter_({m}, {whole}.detach())",
        f"{x}[0][{m}[0]] = 1" if shape[0] else f"{x}.zero_()",
    ]
    b.write(rng.choice(writes), x, "write_where")


def rewriting(b):
    """A mask that is written is another mask, whatever was known of it."""
    rng = b.rng
    names = b.tensors(lambda x: x.dtype in (torch.bool, torch.uint8) and x.numel() > 0)
    if not names:
        return
    m = rng.choice(names)
    if b.get(m).dim() == 0:
        return
    shape = tuple(b.get(m).shape)
    writes = [
        f"{m}.logical_not_()",
        f"{m}[:1] = True",
        f"{m}.fill_({rng.random() < 0.5})",
        f"{m}.copy_({laid_out(b, shape)} > 0)",
        f"{m}.data = {m}.data.clone().zero_()",
        f"{m}.data.view(U8).bitwise_xor_(1)",
        f"{m}.detach()[..., :1].logical_not_()",
        f"torch.gt({laid_out(b, shape)}, 0, out={m})",
        f"{m}.set_(torch.ones({shape_text(shape)}, dtype={m}.dtype, device=dev))",
    ]
    b.write(rng.choice(writes), m, "rewrite")


def training(b):
    """Steps of another number of rows each, with gradients by the same masks."""
    rng = b.rng
    rows, wide = rng.choice([(6, 4), (12, 3), (40, 8)])
    w, out = b.name("w"), b.name()
    losses = [
        "(x[m] - t[m]).square().sum()",
        "F.mse_loss(x[m].sigmoid(), t[m], reduction='sum')",
        "F.cross_entropy(x[r], t[r].argmax(-1), reduction='sum')",
        "x.masked_select(m).exp().sum() + x[~r, 0].sum()",
        "(x.t()[:, r] * t.t()[:, r]).sum() + x[..., t[0] > 0].sum()",
        "torch.where(m, x, 0).sum() + x[m.nonzero(as_tuple=True)].sin().sum()",
    ]
    reads = rng.choice(["", "\n    l.item()", "\n    bool(m.any())"])
    b.add(
        f"{w} = normal(({rows}, {wide}), {rng.randrange(99)}, F32).requires_grad_()\n"
        f"for i in range({rng.choice([2, 4, 7])}):\n"
        f"    t = normal(({rows}, {wide}), i % {rng.choice([2, 9])}, F32)\n"
        f"    x, m, r = {w} * 2, t > {rng.choice(['0', '0.5', '3'])}, t[:, 0] > 0\n"
        f"    l = {rng.choice(losses)} + {rng.choice(losses)}\n"
        f"    l.backward(){reads}\n"
        f"    {w}.data.sub_({w}.grad, alpha=0.01)\n"
        f"{out} = {w}.grad.clone()\nt = x = m = r = l = None\ndel t, x, m, r, l"
    )


STEPS = {picking: 12, writing: 8, rewriting: 6, training: 3}
