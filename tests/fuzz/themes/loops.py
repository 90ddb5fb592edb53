"""Training loops and other repetitions: shapes, branches, rates and reads that change from step to step."""
# ruff: noqa: E501 - statements of programs are longer than lines of code.

from fuzz.literal import shape_text

NETS = {
    "nn.Sequential(nn.Linear(4, 8), nn.{act}(), nn.Linear(8, 3))": "({n}, 4)",
    "nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.{act}(), nn.Linear(4, 3, bias=False))": "({n}, 4)",
    "nn.Sequential(nn.Conv1d(4, 6, 3, padding=1), nn.{act}(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, 3))": "(2, 4, {n} + 1)",
    "nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.{act}(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))": "({n} + 1, 2, 4, 4)",
    "nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)": "(2, {n}, 4)",
    "nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 3))": "E({n}, 3)",
    "nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.{act}())": "({n} + 2, 4)",
    "nn.Sequential(nn.GroupNorm(2, 4), nn.PReLU(), nn.Linear(4, 3))": "({n}, 4)",
}
RATES = ["0.1", "0.01"]
OPTIMIZERS = [
    "SGD({p}, lr={lr}, momentum={m}, nesterov={nest}, maximize={maxi}, weight_decay={wd}, {imp})",
    "SGD({p}, lr={lr}, dampening=0.1, momentum=0.5, {imp})",
    "Adam({p}, lr={lr}, amsgrad={ams}, maximize={maxi}, weight_decay={wd}, {imp})",
    "AdamW({p}, lr={lr}, amsgrad={ams}, maximize={maxi}, weight_decay={wd}, {imp})",
    "AdamW({p}, lr=torch.tensor({lr}), foreach=False)",
    "NAdam({p}, lr={lr}, decoupled_weight_decay={ams}, {unfused})",
    "RAdam({p}, lr={lr}, weight_decay={wd}, {unfused})",
    "Adamax({p}, lr={lr}, maximize={maxi}, {unfused})",
    "Adadelta({p}, lr={lr}, maximize={maxi}, {unfused})",
    "Adagrad({p}, lr={lr}, lr_decay=0.1, maximize={maxi}, {unfused})",
    "RMSprop({p}, lr={lr}, centered={ams}, momentum={m}, maximize={maxi}, {unfused})",
    "Rprop({p}, lr={lr}, {unfused})",
    "ASGD({p}, lr={lr}, {unfused})",
    "Adam({p}, lr={lr}, differentiable=False, capturable=False, eps=1e-3, foreach=False)",
    "Adafactor({p}, lr={lr})",
]


# By default torch takes the lists of tensors on accelerators alone, which counts other writes.
def optimizer(b, p: str, net: str) -> str:
    rng = b.rng
    # The gradient of a bias of keys is nothing but rounding, which most optimizers scale up.
    kinds = OPTIMIZERS[:2] if "Transformer" in net else OPTIMIZERS
    imp = rng.choice(["foreach=True", "foreach=False", "fused=True"])
    momentum = rng.choice(["0.9", "0.0"])
    return rng.choice(kinds).format(
        p=p,
        lr=rng.choice(RATES),
        m=momentum,
        nest=rng.choice(["True", "False"]) if momentum != "0.0" else "False",
        maxi=rng.choice(["False", "False", "True"]),
        wd=rng.choice(["0.0", "0.1"]),
        ams=rng.choice(["True", "False"]),
        imp=imp,
        unfused=rng.choice(["foreach=True", "foreach=False"]),
    )


SIZES = [
    "3",
    "3",
    "3 + i % 2",
    "3 + (i // 2) % 2",
    "2 + i",
    "3 if i < 9 else 4",
    "(3, 3, 5)[i % 3]",
    "1 + i % 5",
    "3 + (i == 7)",
]
LOSSES = [
    "y.square().mean()",
    "F.cross_entropy(y.flatten(0, -2), torch.arange(y.flatten(0, -2).shape[0], device=dev) % 3)",
    "F.cross_entropy(y.flatten(0, -2), torch.arange(y.flatten(0, -2).shape[0], device=dev) % 3, label_smoothing=0.1, ignore_index=i % 3)",
    "F.mse_loss(y, torch.zeros_like(y) + i)",
    "F.smooth_l1_loss(y, y.detach().roll(1, 0) * 0.5)",
    "F.huber_loss(y, y.detach().flip(0) * 0.5, delta=0.5)",
    "(y * (i % 3)).sum().abs()",
    "F.binary_cross_entropy_with_logits(y, (y.detach() > 0).to(y.dtype))",
    "y.logsumexp(-1).mean()",
    "F.nll_loss(y.flatten(0, -2).log_softmax(-1), torch.zeros(y.flatten(0, -2).shape[0], dtype=I64, device=dev), reduction='sum')",
]
EXTRA = [
    "",
    "",
    "",
    "nn.utils.clip_grad_norm_(m.parameters(), 0.5)",
    "nn.utils.clip_grad_value_(m.parameters(), 0.1)",
    "for p in m.parameters():\n    if p.grad is not None:\n        p.grad.mul_(0.5)",
    "for g in o.param_groups:\n    g['lr'] = 0.1 / (1 + i)",
    "for g in o.param_groups:\n    g['lr'] *= 0.5 if i % 2 else 1.5",
    "s.step()",
    "if i == 4:\n    o.load_state_dict(copy.deepcopy(o.state_dict()))",
    "if i == 6:\n    next(m.parameters()).requires_grad_(False)",
    "if i % 4 == 3:\n    for p in m.parameters():\n        p.data.clamp_(-1, 1)",
    "if i % 3 == 0:\n    for p, q in zip(e.parameters(), m.parameters()):\n        p.data.lerp_(q.data, 0.1)",
    "for p, q in zip(e.parameters(), m.parameters()):\n    p.data.mul_(0.9).add_(q.data, alpha=0.1)",
    "if i == 5:\n    m.load_state_dict(e.state_dict())",
]
READS = [
    "",
    "k.append(loss.item())",
    "if i % 3 == 0:\n    k.append(loss.item())",
    "if i % 4 == i // 8:\n    k.append(y.detach().sum().item())",
    "k.append(loss.detach())",
    "k.append(y.detach())",
    "k.append([p.detach().clone() for p in m.parameters()])",
    "k = (k + [loss.detach()])[-4:]",
    "if loss > 0.5:\n    k.append(i)",
    "if i == 10:\n    k.append(loss.tolist())",
    "k.append(loss.detach()) if i % 2 else k.append(y.detach().mean(0))",
]


def lines_of(text: str, depth: int) -> list[str]:
    return ["    " * depth + line for line in text.split("\n")] if text else []


def train(b):
    rng = b.rng
    net, shape = rng.choice(list(NETS.items()))
    act = rng.choice(["ReLU", "GELU", "Tanh", "SiLU", "Dropout(0.0) if True else nn.Identity"])
    act = act if "Dropout" not in act else "Hardswish"
    net = net.format(act=act)
    if "GroupNorm" in net and rng.random() < 0.5:
        net = net.replace("nn.PReLU()", "nn.ELU()")
    size = rng.choice(SIZES)
    x = f"normal({shape.format(n=f'({size})')}, {rng.randrange(99)} + i)"
    if shape[0] == "E":
        x = f"(normal({shape[1:].format(n=f'({size})')}, {rng.randrange(99)} + i).abs() * 2).long().clamp(0, 6)"
    steps = rng.choice([8, 12, 20, 30])
    name, out = b.name("m"), b.name("k")
    opt, other = b.name("o"), b.name("m")
    extra = rng.choice(EXTRA)
    before = [
        f"{name} = module({net}, {rng.randrange(99)})",
        f"m, k = {name}, []",
        f"{opt} = torch.optim.{optimizer(b, 'm.parameters()', net)}",
        f"o = {opt}",
        f"e = {other} = module({net}, {rng.randrange(99)})"
        if "e.parameters" in extra or "e.state" in extra
        else "e = None",
    ]
    if extra == "s.step()":
        before.append(
            f"s = torch.optim.lr_scheduler.{rng.choice(['StepLR(o, 3)', 'CosineAnnealingLR(o, 10)', 'OneCycleLR(o, 0.1, total_steps=40)', 'ExponentialLR(o, 0.9)', 'LambdaLR(o, lambda n: 1 / (n + 1))'])}"
        )
    loss = rng.choice(LOSSES)
    if "Transformer" in net and "cross" in loss and "smoothing" in loss:
        loss = LOSSES[0]
    accumulate = rng.choice([1, 1, 1, 2, 3])
    body = [f"x = {x}"]
    if rng.random() < 0.15:
        body.append("x.requires_grad_()" if shape[0] != "E" else "pass")
    y = "m(x)"
    if rng.random() < 0.1:
        y = "checkpoint(m, x, use_reentrant=False)"
    if rng.random() < 0.15:
        y = "(m(x) if i % 3 else m(x) * 2)"
    body.append(f"y = {y}")
    body.append(f"loss = {loss}")
    if rng.random() < 0.1:
        body.append("loss = loss + sum(p.square().sum() for p in m.parameters()) * 0.01")
    zero = f"o.zero_grad(set_to_none={rng.choice(['True', 'True', 'False'])})"
    backward = "loss.backward()"
    way = rng.random()
    if way < 0.08:
        backward = "g = torch.autograd.grad(loss, [p for p in m.parameters() if p.requires_grad], create_graph=True, allow_unused=True)\n(loss + sum(q.square().sum() for q in g if q is not None) * 0.1).backward()\ndel g"
    elif way < 0.14:
        backward = "loss.backward(retain_graph=True)\nloss.backward()"
    elif way < 0.2:
        backward = "if i % 5 == 4:\n    loss.detach()\nelse:\n    loss.backward()"
    step = "o.step()"
    if accumulate > 1:
        step, zero = f"if i % {accumulate} == {accumulate - 1}:\n    o.step()\n    {zero}", "pass"
    if rng.random() < 0.07:
        step, zero, backward = (
            "def closure():\n    o.zero_grad()\n    l = m(x).square().mean()\n    l.backward()\n    return l\no.step(closure)",
            "pass",
            "pass",
        )
    order = [zero, backward] if rng.random() < 0.5 else [backward]
    tail = [extra, step] if rng.random() < 0.5 else [step, extra]
    if len(order) == 1:
        tail.append(zero)
    read = rng.choice(READS)
    parts = [*body, *order, *tail, read]
    if rng.random() < 0.1:
        parts.insert(
            rng.randrange(2, len(parts)),
            "try:\n    y + torch.ones(1, 2, 3, 11, device=dev)\nexcept RuntimeError:\n    pass",
        )
    if rng.random() < 0.15:
        parts.append("del loss, y")
    text = [*before, f"for i in range({steps}):"]
    for part in parts:
        text += lines_of(part, 1)
    text += [
        f"{out} = k",
        "x = y = loss = m = o = e = s = None",
        "del x, y, loss, m, o, e, s, k",
    ]
    b.add("\n".join(text))


def recurrences(b):
    """Numbers that a loop carries along, without a model."""
    rng = b.rng
    out, state, other = b.name("k"), b.name(), b.name()
    kind = rng.choice(["F32", "F32", "F64", "BF16", "I64", "I32"])
    shape = rng.choice([(), (1,), (3,), (3, 4), (2, 3, 4), (0,), (33,)])
    steps = rng.choice([6, 12, 30])
    whole = kind[0] == "I"
    bodies = [
        "s = s + t",
        "s = s * {c} + t",
        "s.mul_({c}).add_(t)",
        "s.add_(t, alpha={c})",
        "s = torch.where(s > i, s - i, t)",
        "s[..., :1] = i",
        "s[..., i % 2:].add_(1)",
        "s = s.roll(1, -1) if s.dim() else s + 1",
        "s, t = t, s + t",
        "s = torch.cat([s.flatten(), t.flatten()])[-12:]",
        "t = s.clone()\ns.fill_(i)",
        "v = s.view(-1)\nv[:2] += i\nv = None",
        "s = s + (i % 3)",
        "s = s + i * 0.5",
        "s.sub_(s.sum())",
        "if (s > 0).any():\n    s = s - 1\nelse:\n    s = s + 2",
        "if s.sum().item() > i:\n    s = -s",
        "s = torch.maximum(s, t) + i",
        "s = s.clamp(-i, i)",
        "t = t.clone()\nt[..., 0:1].copy_(s[..., 0:1]) if s.dim() and s.shape == t.shape else None",
        "s.copy_(t)\nt.add_(1)",
        "s = s.to({d}).to({kind})",
        "w = s\ns = s.clone()\ns.add_(1)\nk.append(w)\nw = None",
        "s = s.sort(-1, descending=i % 2 == 0)[0] if s.dim() else s",
        "s = s.cumsum(-1) if s.dim() else s",
        "s = s.clamp(-1, 1).cumprod(-1) if s.dim() else s",
        "s = s.flip(0) if s.dim() else s",
        "u = s.expand(2, *s.shape)\ns = u[0] + u[1]\nu = None",
        "s = s[..., :max(1, s.shape[-1] - i % 2)] if s.dim() else s",
        "s = torch.stack([s, s]).sum(0)",
        "s = s.exp().log1p() if s.is_floating_point() else s // 2",
        "s = s.div(3, rounding_mode={r!r})",
        "s = s % (i + 1)",
        "s.data = s.data + 1",
        "s = s.detach()\ns.zero_()",
        "s.masked_fill_(s > 3, 0)",
        "s = s.masked_fill(t > s, i)",
        "s = s.abs().sqrt() if s.is_floating_point() else s.abs()",
        "x = s.numpy(force=True).copy()\nk.append(float(x.sum()))\nx = None",
    ]
    chosen = [rng.choice(bodies) for _ in range(rng.choice([1, 2, 3]))]
    body = "\n".join(chosen).format(
        c=rng.choice(["2", "-1"]) if whole else rng.choice(["0.5", "-1", "2", "0.1 * i"]),
        d=rng.choice(["F32", "F64", "I32", "BF16"] if not whole else ["I32", "I16", "F32"]),
        kind=kind,
        r=rng.choice(["floor", "trunc"]),
    )
    if whole:
        body = body.replace("i * 0.5", "i * 5")
    read = rng.choice(
        [
            "",
            "k.append(s)",
            "k.append(s.clone())",
            "k.append(s.tolist())",
            "if i % 3 == 1:\n    k.append(s.sum().item())",
            "k = [s, *k][:3]",
            "k.append(t)",
        ]
    )
    lines = [
        f"s, t, k = normal({shape_text(shape)}, {rng.randrange(99)}, {kind}), normal({shape_text(shape)}, {rng.randrange(99)}, {kind}), []",
        f"for i in range({steps}):",
        *lines_of(body, 1),
        *lines_of(read, 1),
        f"{state}, {other}, {out} = s, t, k",
        "del s, t, k",
    ]
    b.add("\n".join(lines))


STEPS = {train: 3, recurrences: 4}
