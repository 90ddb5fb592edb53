"""New tensors: of all types, 0-dim, empty, of size 1, strided, channels-last, expanded."""

from fuzz.literal import shape_text
from fuzz.scope import TYPES

SHAPES = [
    (),
    (1,),
    (0,),
    (4,),
    (3, 4),
    (4, 3),
    (1, 4),
    (3, 1),
    (2, 3, 4),
    (0, 3),
    (2, 1, 3),
    (2, 3, 4, 4),
    (5, 5),
    (2, 4),
    (16,),
    (4, 4),
    (3, 3, 3),
]
GENERIC = ["(n,)", "(n, 4)", "(4, n)", "(n, n)", "(2, n, 3)"]
USUAL = ["F32"] * 6 + ["F64", "BF16", "F16", "I64", "I64", "BOOL"]


def some_type(b) -> str:
    return b.rng.choice(USUAL) if b.rng.random() < 0.75 else b.rng.choice(list(TYPES))


def some_shape(b) -> str:
    if b.rng.random() < 0.25:
        return b.rng.choice(GENERIC)
    return shape_text(b.rng.choice(SHAPES))


def create(b):
    kind = TYPES[some_type(b)]
    made = f"normal({some_shape(b)}, {b.rng.randrange(1000)}, {kind})"
    way = b.rng.random()
    if way < 0.15:
        made = f"{made}.unsqueeze(0).expand(3, *[-1] * {made}.dim())"
    elif way < 0.25:
        made = f"{made}.mT"
    elif way < 0.3:
        made = (
            f"normal((2, 3, 4, 4), {b.rng.randrange(1000)}).to(memory_format=torch.channels_last)"
        )
    elif way < 0.45:
        makers = ("torch.zeros", "torch.ones")
        kind = some_type(b)
        made = f"{b.rng.choice(makers)}({some_shape(b)}, dtype={kind}, device=dev)"
    elif way < 0.5:
        number = b.rng.choice("0123")
        made = f"torch.empty({some_shape(b)}, dtype={some_type(b)}, device=dev).fill_({number})"
    elif way < 0.55:
        kind = b.rng.choice(["F32", "I64", "I32"])
        made = f"torch.arange({b.rng.randrange(6)}, dtype={kind}, device=dev)"
    elif way < 0.65 and (name := b.pick()):
        made = f"twin({name}, {b.rng.randrange(1000)})"
    floating = kind not in (None, "BOOL") and "float" in made
    if b.wants_grad and floating and b.rng.random() < 0.6:
        made = f"{made}.detach().requires_grad_()"
    b.bind(made, "create")
