"""Operands of a given shape and type that lie in memory in one of the ways that programs have."""

from fuzz.literal import shape_text
from fuzz.scope import TYPES

FLOATING = ["F32"] * 7 + ["F64", "F64", "BF16", "F16"]


def floating(b) -> str:
    return b.rng.choice(FLOATING)


def laid_out(b, shape, kind="F32") -> str:
    """An expression for new numbers: dense, transposed, a window, every second one, expanded."""
    rng, shape = b.rng, tuple(shape)
    seed = rng.randrange(1000)

    def normal(of):
        return f"normal({shape_text(of)}, {seed}, {kind})"

    way = rng.random()
    if not shape or way < 0.45:
        return normal(shape)
    if way < 0.6 and len(shape) >= 2:
        i, j = rng.sample(range(len(shape)), 2)
        swapped = list(shape)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        return f"{normal(swapped)}.transpose({i}, {j})"
    d = rng.randrange(len(shape))
    lead = ":, " * d
    if way < 0.75:
        wide = (*shape[:d], shape[d] + 3, *shape[d + 1 :])
        return f"{normal(wide)}[{lead}{rng.randrange(3)}:][{lead}:{shape[d]}]"
    if way < 0.82:
        wide = (*shape[:d], 2 * shape[d], *shape[d + 1 :])
        return f"{normal(wide)}[{lead}::2]"
    if way < 0.92:
        one = (*shape[:d], 1, *shape[d + 1 :])
        return f"{normal(one)}.expand({shape_text(shape)})"
    return f"{normal((2, *shape))}[{rng.randrange(2)}]"


def operand(b, shape, kind="F32", grad=None) -> str:
    """The name of a variable: of one that is there already, or of a new one."""
    rng, shape = b.rng, tuple(shape)
    same = b.tensors(lambda x: x.dtype == TYPES[kind] and tuple(x.shape) == shape)
    if same and rng.random() < 0.4:
        return rng.choice(same)
    made = laid_out(b, shape, kind)
    wants = b.wants_grad and rng.random() < 0.7 if grad is None else grad
    if wants and kind in ("F16", "BF16", "F32", "F64", "C64", "C128"):
        made += ".detach().requires_grad_()"
    return (b.bind(made, "create") or ["None"])[0]
