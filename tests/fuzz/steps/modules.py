"""Small modules, optimizers and training steps."""

import torch

from fuzz import adapt

MADE = {
    "nn.Linear(4, 3)": (2, 4),
    "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))": (3, 4),
    "nn.LayerNorm(4)": (3, 4),
    "nn.Conv2d(3, 4, 3, padding=1)": (2, 3, 4, 4),
    "nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.GELU())": (2, 3, 4, 4),
    "nn.BatchNorm1d(4)": (3, 4),
    "nn.Conv1d(3, 2, 2)": (2, 3, 4),
    "nn.GRU(4, 3, batch_first=True)": (2, 3, 4),
    "nn.LSTM(4, 3)": (2, 3, 4),
    "nn.MultiheadAttention(4, 2, batch_first=True)": (2, 3, 4),
    "nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)": (2, 3, 4),
    "nn.GroupNorm(2, 4)": (2, 4, 3),
    "nn.PReLU()": (3, 4),
    "nn.Bilinear(4, 4, 3)": (3, 4),
}
OPTIMIZERS = [
    "SGD({0}.parameters(), lr=0.1)",
    "SGD({0}.parameters(), lr=0.1, momentum=0.9, nesterov=True, foreach=True)",
    "SGD({0}.parameters(), lr=0.1, weight_decay=0.1, foreach=False, momentum=0.5)",
    "Adam({0}.parameters(), lr=0.1)",
    "Adam({0}.parameters(), lr=0.1, foreach=True, amsgrad=True)",
    "AdamW({0}.parameters(), lr=0.1, foreach=False)",
    "AdamW({0}.parameters(), lr=0.1, fused=True)",
    "RMSprop({0}.parameters(), lr=0.01)",
    "Adagrad({0}.parameters(), lr=0.1)",
]


def objects(b, kind) -> list[str]:
    return [
        name
        for name, x in b.namespace.items()
        if isinstance(x, kind) and name not in b.running.brought
    ]


def module(b):
    """Makes one, or applies one to a variable of its shape."""
    found = objects(b, torch.nn.Module)
    if (len(found) < 2 and b.rng.random() < 0.6) or not found:
        text = b.rng.choice(list(MADE))
        name = b.name("m")
        b.add(f"{name} = module({text}, {b.rng.randrange(99)})")
        b.namespace[name].made = text
        if b.rng.random() < 0.6:
            b.add(f"{b.name('o')} = torch.optim.{b.rng.choice(OPTIMIZERS).format(name)}")
        found = [name]
    apply(b, b.rng.choice(found))


def apply(b, name: str):
    text = getattr(b.namespace[name], "made", None)
    if text is None:
        return
    from fuzz import adapt

    other = b.pick(lambda x: x.is_floating_point())
    wanted = MADE[text]
    x = adapt.adapted(other, b.get(other), wanted, torch.float32, b.rng) if other else None
    x = x or f"normal({wanted}, {b.rng.randrange(99)})"
    if "MultiheadAttention" in text:
        x = ", ".join([x] * 3)
    elif "Bilinear" in text:
        x = f"{x}, {x}"
    if b.rng.random() < 0.1:
        b.add(f"{name}.{b.rng.choice(['eval', 'train'])}()")
    if any(k in text for k in ("GRU", "LSTM", "Multihead")):
        b.bind(f"{name}({x})[0]", text[3:].split("(")[0])
    else:
        b.bind(f"{name}({x})", text[3:].split("(")[0])


def optimize(b):
    """A step; often a whole iteration, again and again."""
    found = objects(b, torch.optim.Optimizer)
    modules = objects(b, torch.nn.Module)
    if not found or not modules:
        return module(b)
    name = b.rng.choice(found)
    way = b.rng.random()
    if way < 0.3:
        b.add(f"{name}.step()")
    elif way < 0.4:
        b.add(f"{name}.zero_grad(set_to_none={b.rng.choice(['True', 'False'])})")
    else:
        one = b.rng.choice(modules)
        text = getattr(b.namespace[one], "made", "")
        if not text or any(k in text for k in ("GRU", "LSTM", "Multihead", "Bilinear")):
            return
        lines = [
            f"for i in range({b.rng.choice([1, 2, 4])}):",
            f"    {name}.zero_grad()",
            f"    {one}(normal({MADE[text]}, i)).square().mean().backward()",
            f"    {name}.step()",
        ]
        b.add("\n".join(lines))


def lists(b):
    """torch's operators over lists."""

    def plain(x):
        return x.is_floating_point() and not x.requires_grad and not adapt.overlaps(x)

    same = [b.pick(plain) for _ in range(3)]
    if None in same:
        return
    texts = f"[{', '.join(same)}]"
    ways = [
        f"torch._foreach_add({texts}, 1)",
        f"torch._foreach_mul({texts}, {texts})",
        f"torch._foreach_sqrt({texts})",
        f"torch._foreach_norm({texts})",
        f"torch._foreach_lerp({texts}, {texts}, 0.5)",
        f"torch._foreach_addcmul({texts}, {texts}, {texts}, 0.5)",
        f"torch._foreach_div({texts}, 2.0)",
    ]
    written = [
        f"torch._foreach_add_({texts}, 1)",
        f"torch._foreach_mul_({texts}, 0.5)",
        f"torch._foreach_zero_({texts})",
        f"torch._foreach_copy_({texts}, {texts[::1]})",
        f"torch._foreach_add_({texts}, {texts}, alpha=2)",
        f"nn.utils.clip_grad_norm_({texts}, 1.0)",
    ]
    if b.rng.random() < 0.5:
        b.bind(b.rng.choice(ways), "foreach")
    else:
        b.write(b.rng.choice(written), same[0], "foreach_")
