"""Products: all of torch's functions, sizes of nothing, operands in any layout, epilogues, packed weights."""
# ruff: noqa: E501 - statements of programs are longer than lines of code.

from fuzz.literal import shape_text
from fuzz.themes.layouts import floating, operand

SIZES = [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 33, 0]
INTEGER = ["I64", "I32", "U8", "I8", "BOOL", "I16"]


def shape_of(b, text):
    """The shape of what the text gives; empty if it is no tensor."""
    found = b.ask(text)
    return tuple(found.shape) if hasattr(found, "shape") else ()


def kind_of(b) -> str:
    way = b.rng.random()
    return (
        floating(b)
        if way < 0.85
        else b.rng.choice(["C64", "C128"])
        if way < 0.92
        else b.rng.choice(INTEGER)
    )


def size(b) -> int:
    return b.rng.choice(SIZES if b.rng.random() < 0.3 else SIZES[:-1])


SCALES = [
    "",
    "",
    ", beta=0",
    ", alpha=0",
    ", beta=0, alpha=2",
    ", beta=2",
    ", beta=0.5, alpha=-1",
    ", alpha=0, beta=0",
]


def tail(b, text: str, shape, kind: str) -> str:
    """What follows a product in networks."""
    rng = b.rng
    if kind not in ("F32", "F64", "BF16", "F16"):
        return text
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        last = shape[-1] if shape else 1
        text = rng.choice(
            [
                f"F.relu({text})",
                f"F.gelu({text})",
                f"F.gelu({text}, approximate='tanh')",
                f"torch.tanh({text})",
                f"torch.sigmoid({text})",
                f"F.silu({text})",
                f"({text} + {operand(b, (last,), kind)})",
                f"({text} + {operand(b, shape, kind)})",
                f"({operand(b, shape, kind)} - {text})",
                f"({text} * {rng.choice(['2', '0.5', '-1', '0'])})",
                f"({text} * {operand(b, shape, kind)})",
                f"F.layer_norm({text}, ({last},))" if last else text,
                f"F.softmax({text}, -1)",
                f"F.dropout({text}, 0.0)",
                f"({text}).clamp(-1, 1)",
                f"({text}).to(BF16).to({kind})",
                f"({text}).contiguous()",
                f"torch.where({text} > 0, {text}, 0)",
                f"({text} + {text})",
            ]
        )
    return text


def matrix(b):
    rng, kind = b.rng, kind_of(b)
    m, n, k = size(b), size(b), size(b)
    way = rng.choice(
        [
            "mm",
            "addmm",
            "linear",
            "linear",
            "linear3",
            "matmul",
            "addmm_",
            "out",
            "mv",
            "addmv",
            "addr",
            "outer",
            "dot",
        ]
    )
    a, c = operand(b, (m, k), kind), operand(b, (k, n), kind)
    scale = rng.choice(SCALES)
    if kind in INTEGER or kind[0] == "C":
        scale = scale.replace("0.5", "3")
    bias = rng.choice([(m, n), (n,), (1, n), (m, 1), (), (1, 1)])
    shape = (m, n)
    if way == "mm":
        text = f"torch.mm({a}, {c})"
    elif way == "matmul":
        text = f"{a} @ {c}"
    elif way == "addmm":
        first = operand(b, bias, kind)
        if "beta=0" in scale and rng.random() < 0.5 and kind[0] in "FB" and kind != "BOOL":
            first = f"torch.full({shape_text(bias)}, nan, dtype={kind}, device=dev)"
        text = f"torch.addmm({first}, {a}, {c}{scale})"
    elif way == "linear":
        text = f"F.linear({a}, {operand(b, (n, k), kind)}{', ' + operand(b, (n,), kind) if rng.random() < 0.7 else ''})"
    elif way == "linear3":
        shape = rng.choice([(2, m, n), (1, m, n), (m, 1, n), (2, 0, n), (n,), (2, 1, m, n)])
        text = f"F.linear({operand(b, (*shape[:-1], k), kind)}, {operand(b, (n, k), kind)}{', ' + operand(b, (n,), kind) if rng.random() < 0.7 else ''})"
    elif way == "addmm_":
        target = operand(b, (m, n), kind, grad=False)
        b.write(f"{target}.addmm_({a}.detach(), {c}.detach(){scale})", target, "addmm_")
        return
    elif way == "out":
        target = operand(b, rng.choice([(m, n), (m, n), (0,)]), kind, grad=False)
        f = rng.choice(
            [
                f"torch.mm({a}.detach(), {c}.detach(), out={target})",
                f"torch.matmul({a}.detach(), {c}.detach(), out={target})",
                f"torch.addmm({operand(b, bias, kind)}.detach(), {a}.detach(), {c}.detach(){scale}, out={target})",
            ]
        )
        if {a, c} & {target} or f.count(target) > 1:
            return
        b.write(f, target, "mm")
        return
    elif way == "mv":
        shape, text = (
            (m,),
            rng.choice(
                [
                    f"torch.mv({a}, {operand(b, (k,), kind)})",
                    f"{a} @ {operand(b, (k,), kind)}",
                    f"{operand(b, (m,), kind)} @ {a}",
                ]
            ),
        )
    elif way == "addmv":
        shape, text = (
            (m,),
            f"torch.addmv({operand(b, rng.choice([(m,), (), (1,)]), kind)}, {a}, {operand(b, (k,), kind)}{scale})",
        )
    elif way == "addr":
        text = f"torch.addr({operand(b, bias, kind)}, {operand(b, (m,), kind)}, {operand(b, (n,), kind)}{scale})"
    elif way == "outer":
        text = f"torch.outer({operand(b, (m,), kind)}, {operand(b, (n,), kind)})"
    else:
        shape, text = (
            (),
            f"{rng.choice(['torch.dot', 'torch.vdot', 'torch.inner'])}({operand(b, (k,), kind)}, {operand(b, (k,), kind)})",
        )
    b.bind(tail(b, text, shape, kind), "product")


def batched(b):
    rng, kind = b.rng, kind_of(b)
    n, m, p, k = (
        rng.choice([1, 2, 3, 0] if rng.random() < 0.2 else [1, 2, 3]),
        size(b),
        size(b),
        size(b),
    )
    way = rng.choice(
        [
            "bmm",
            "baddbmm",
            "matmul",
            "einsum",
            "tensordot",
            "addbmm",
            "bilinear",
            "chain",
            "baddbmm_",
        ]
    )
    shape = (n, m, p)
    a, c = operand(b, (n, m, k), kind), operand(b, (n, k, p), kind)
    scale = rng.choice(SCALES)
    if kind in INTEGER or kind[0] == "C":
        scale = scale.replace("0.5", "3")
    if way == "bmm":
        text = f"torch.bmm({a}, {c})"
    elif way == "baddbmm":
        first = operand(b, rng.choice([(n, m, p), (1, m, p), (m, p), (p,), (n, 1, p), ()]), kind)
        if "beta=0" in scale and rng.random() < 0.5:
            first = (
                f"torch.full({shape_text((n, m, p))}, nan, device=dev).to({kind})"
                if kind in ("F32", "F64", "BF16", "F16")
                else first
            )
        text = f"torch.baddbmm({first}, {a}, {c}{scale})"
    elif way == "baddbmm_":
        target = operand(b, (n, m, p), kind, grad=False)
        b.write(f"{target}.baddbmm_({a}.detach(), {c}.detach(){scale})", target, "baddbmm_")
        return
    elif way == "addbmm":
        shape = (m, p)
        text = f"torch.addbmm({operand(b, rng.choice([(m, p), (p,), ()]), kind)}, {a}, {c}{scale})"
    elif way == "matmul":
        left = rng.choice([(n, m, k), (1, m, k), (2, 1, m, k), (k,), (m, k), (2, n, m, k)])
        right = rng.choice([(n, k, p), (1, k, p), (1, n, k, p), (k,), (k, p)])
        text = f"torch.matmul({operand(b, left, kind)}, {operand(b, right, kind)})"
        shape = shape_of(b, text)
    elif way == "einsum":
        text = rng.choice(
            [
                f"torch.einsum('bmk,bkp->bmp', {a}, {c})",
                f"torch.einsum('bmk,bkp->mp', {a}, {c})",
                f"torch.einsum('bmk,bkp->pmb', {a}, {c})",
                f"torch.einsum('bmk,kp->bmp', {a}, {operand(b, (k, p), kind)})",
                f"torch.einsum('bmk,bmk->bm', {a}, {operand(b, (n, m, k), kind)})",
                f"torch.einsum('bmk->bkm', {a})",
                f"torch.einsum('bmk,bkp->bp', {a}, {c})",
                f"torch.einsum('bmk,bkp,p->m', {a}, {c}, {operand(b, (p,), kind)})",
                f"torch.einsum('...mk,...kp->...mp', {a}, {c})",
                f"torch.einsum('bmk,bnk->bnm', {a}, {operand(b, (n, p, k), kind)})",
                f"torch.einsum('ii->i', {operand(b, (m, m), kind)})",
                f"torch.einsum('ij,jk,kl->il', {operand(b, (m, k), kind)}, {operand(b, (k, p), kind)}, {operand(b, (p, 2), kind)})",
            ]
        )
        shape = shape_of(b, text)
    elif way == "tensordot":
        text = rng.choice(
            [
                f"torch.tensordot({a}, {c}, dims=([2], [1]))",
                f"torch.tensordot({a}, {c}, dims=([0, 2], [0, 1]))",
                f"torch.tensordot({a}, {operand(b, (k, p), kind)}, 1)",
                f"torch.kron({operand(b, (2, 3), kind)}, {operand(b, (m, 2), kind)})",
            ]
        )
        shape = shape_of(b, text)
    elif way == "bilinear":
        shape = (n, p)
        text = f"F.bilinear({operand(b, (n, k), kind)}, {operand(b, (n, m), kind)}, {operand(b, (p, k, m), kind)})"
    else:
        shape = (m, 2)
        text = f"torch.linalg.multi_dot([{operand(b, (m, k), kind)}, {operand(b, (k, p), kind)}, {operand(b, (p, 2), kind)}])"
    b.bind(tail(b, text, shape, kind), "product")


def shared_input(b):
    """Three linear maps of one input."""
    rng, kind = b.rng, floating(b)
    m, k = rng.choice([1, 2, 5, 16]), rng.choice([3, 4, 8, 16])
    x = operand(b, rng.choice([(m, k), (2, m, k)]), kind)
    for _ in range(3):
        n = rng.choice([k, k, 2, 5])
        bias = f", {operand(b, (n,), kind)}" if rng.random() < 0.5 else ""
        b.bind(f"F.linear({x}, {operand(b, (n, k), kind)}{bias})", "linear")


CHANGES = [
    "{w}.data.mul_(0.5)",
    "{w}.data = {w}.data * 2",
    "{w}.data[0] = 1",
    "{w}.data.copy_({other})",
    "{m}.load_state_dict({{key: x * 2 for key, x in {m}.state_dict().items()}})",
    "with torch.no_grad():\n    {w}.add_(0.25)",
    "with torch.no_grad():\n    {w}[1:].zero_()",
    "with torch.no_grad():\n    {w}.t().copy_({other}.t())",
    "with torch.no_grad():\n    {w}.set_({other})",
    "{m}.weight = nn.Parameter({other})",
    "{w}.data = {other}.t().contiguous().t()",
    "torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector({m}.parameters()).detach() * 0.5, {m}.parameters())",
    "{w}.data.view(-1)[3] = 7.0",
    "{w}.data.swapaxes(0, 1)[0].neg_()",
    "torch._foreach_mul_([p.data for p in {m}.parameters()], 0.5)",
    "{m}.bias.data.fill_(3)",
    "{m}.bias = None",
    "{m}.requires_grad_(False)",
    "{m}.to(F64).to(F32)",
    "{w}.data.clamp_(-0.1, 0.1)",
    "F.relu_({w}.data)",
    "{w}.data.resize_({w}.shape)",
    "{w}.detach().untyped_storage().copy_({other}.untyped_storage())",
    "torch.utils.swap_tensors({w}, nn.Parameter({other}))",
]


def changing_weights(b):
    """A layer's results before and after its weights change, in ways that a packed copy must see."""
    rng = b.rng
    m, k, n = rng.choice([1, 2, 8, 33]), rng.choice([4, 16, 32]), rng.choice([2, 8, 16])
    name = b.name("m")
    layer, shape = rng.choice(
        [
            (f"nn.Linear({k}, {n})", (m, k)),
            (f"nn.Linear({k}, {n})", (m, k)),
            (f"nn.Conv2d(3, {n}, 3, padding=1)", (2, 3, 5, 5)),
            (f"nn.Conv1d(3, {n}, 3)", (2, 3, 7)),
            (f"nn.ConvTranspose2d(3, {n}, 2)", (1, 3, 4, 4)),
        ]
    )
    b.add(f"{name} = module({layer}, {rng.randrange(99)})")
    x = operand(b, shape, grad=False)
    out = b.name("k")
    mode = rng.choice(["torch.no_grad()", "torch.enable_grad()", "torch.inference_mode()"])
    call = rng.choice(["{0}({1})", "F.relu({0}({1}))", "{0}({1}).sum()"]).format(name, x)
    lines = [f"{out} = []", f"for i in range({rng.choice([2, 6, 8])}):"]
    take = rng.choice(
        [
            f"{out}.append(y.detach())",
            f"{out}.append(y.sum().item())",
            f"{out}.append((y.detach() * 1).cpu())",
        ]
    )
    change = rng.choice(CHANGES)
    weight = f"{name}.weight"
    if not b.namespace.get(name):
        return
    other = f"normal({shape_text(b.get(name).weight.shape)}, {rng.randrange(99)})"
    change = change.format(w=weight, m=name, other=other)
    when = rng.choice(["i == 1", "i % 2", "True", "i == 5"])
    lines += [f"    with {mode}:", f"        y = {call}", f"    {take}", f"    if {when}:"]
    lines += [f"        {line}" for line in change.split("\n")]
    lines += ["del y"]
    b.add("\n".join(lines))


STEPS = {matrix: 10, batched: 10, shared_input: 2, changing_weights: 5}
