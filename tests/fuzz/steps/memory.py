"""Writes through views, conversions, storage games, and variables that end."""

from fuzz import adapt
from fuzz.literal import shape_text
from fuzz.scope import NAME_OF, TYPES
from fuzz.steps import views

UNARY = """
    neg_ abs_ relu_ sigmoid_ tanh_ exp_ sin_ floor_ zero_ sqrt_ square_ reciprocal_ round_ sign_
    logical_not_ nan_to_num_ cos_ erf_ trunc_ conj_physical_
""".split()  # noqa: SIM905
BINARY = """
    add_ sub_ mul_ div_ copy_ pow_ atan2_ logical_and_ eq_ lt_ fmod_ remainder_ clamp_min_
""".split()  # noqa: SIM905
SCALARS = """
    0 1 2 -1 0.5 1.5 3 True
""".split()  # noqa: SIM905


def part(b, name: str) -> str:
    """The variable, or an inline view of it."""
    if b.rng.random() < 0.5:
        return name
    return b.rng.choice(views.candidates(b, name))


def write(b):
    """An in-place operator or an assignment, often through a view that stays no variable."""
    name = b.pick()
    if name is None:
        return
    target = part(b, name)
    seen = b.ask(target)
    if not hasattr(seen, "dtype") or adapt.overlaps(seen):
        return  # in which order eager writes is nobody's promise
    other = b.pick()
    value = (
        adapt.adapted(other, b.get(other), seen.shape, seen.dtype, b.rng)
        if b.rng.random() < 0.8
        else other
    )
    value = value or b.rng.choice(SCALARS)
    if b.rng.random() < 0.2 or adapt.collide(seen, b.ask(value)):
        value = b.rng.choice(SCALARS)
    way = b.rng.random()
    if way < 0.25:
        method = b.rng.choice(UNARY)
        text = f"{target}.{method}()"
    elif way < 0.65:
        method = b.rng.choice(BINARY)
        text = f"{target}.{method}({value})"
    elif way < 0.75:
        method = "setitem"
        places = ["...", "0", "1:", "::2", "-1", f"{other} > 0", ":0"]
        place = f"{name}[{b.rng.choice(places)}]"
        if b.rng.random() < 0.6 or adapt.collide(b.ask(place), b.ask(value)):
            value = b.rng.choice(SCALARS)
        text = f"{place} = {value}"
    elif way < 0.85:
        method = b.rng.choice(["+=", "-=", "*=", "/=", "&=", "|="])
        if adapt.overlaps(b.get(name)):
            return
        if adapt.collide(b.get(name), b.ask(value)):
            value = b.rng.choice(SCALARS)
        text = f"{name} {method} {value}"
    elif way < 0.93:
        method = b.rng.choice(["masked_fill_", "fill_", "add_alpha", "addcmul_", "lerp_"])
        text = {
            "masked_fill_": f"{target}.masked_fill_({target} > 0, {b.rng.choice(SCALARS)})",
            "fill_": f"{target}.fill_({b.rng.choice(SCALARS)})",
            "add_alpha": f"{target}.add_({value}, alpha={b.rng.choice(['2', '0.5', '-1'])})",
            "addcmul_": f"{target}.addcmul_({value}, {value}, value=0.5)",
            "lerp_": f"{target}.lerp_({value}, 0.25)",
        }[method]
    else:
        method = b.rng.choice(["t_", "squeeze_", "unsqueeze_", "transpose_", "swapaxes_"])
        given = {"unsqueeze_": "0", "transpose_": "0, -1", "swapaxes_": "0, -1"}
        text = f"{name}.{method}({given.get(method, '')})"
    if b.wants_grad and b.rng.random() < 0.3:
        text = f"with torch.no_grad():\n    {text}"
    producers = b.producers([other])
    if b.write(text, name, method):
        b.met(producers, method)


def convert(b):
    name = b.pick()
    if name is None:
        return
    kind = b.rng.choice(list(TYPES))
    if adapt.bounded(b.get(name), TYPES[kind]):
        kind = "F64"
    ways = [
        f"{name}.to({kind})",
        f"{name}.to({kind}, copy=True)",
        f"{name}.type({kind})",
        f"{name}.to(dev)",
        f"{name}.clone()",
        f"{name}.to(dev, {kind})",
        f"torch.zeros_like({name}, dtype={kind}).copy_({name})",
        f"{name}.float()",
        f"{name}.cpu().clone().to(dev)",
        f"{name}.to({kind}).to({NAME_OF.get(b.get(name).dtype, 'C64')})",
        f"{name}.clone(memory_format=torch.contiguous_format)",
        f"torch.empty_like({name}).copy_({name})",
        f"torch.as_tensor({name}, dtype={kind})",
    ]
    b.bind(b.rng.choice(ways), "to")


def storage(b):
    """`.data`, `set_`, `resize_` and the like: what changes a tensor under its other names."""
    name = b.pick()
    if name is None:
        return
    x, other = b.get(name), b.pick()
    smaller = shape_text((x.numel() // 2,))
    has = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    same = shape_text((min(x.numel(), has),))  # beyond it nobody has written
    ways = [
        f"{name}.data.mul_(2)",
        f"{name}.resize_({same if x.numel() // 2 > has else smaller})",
        f"{name}.resize_({same})",
        f"{name}.resize_({x.numel() + 3}).zero_()",
        f"{name}.detach_()",
        f"{name}.requires_grad_({b.rng.choice(['', 'False'])})",
        f"{name}.data = {other}.detach()",
        f"{name}.data = {name}.data * 2",
        f"{name}.set_({other}.detach())",
        f"{name}.set_({other}.untyped_storage(), 0, {shape_text((1,))}, {shape_text((1,))})",
        f"{name}.swapaxes_(0, -1)",
        f"{name}.as_strided_((2,), (1,))",
        f"{name}.resize_as_({name})",
        f"{name}.data.zero_()",
        f"{name}.set_({name})",
    ]
    text = b.rng.choice(ways)
    if ".set_(" in text and b.get(other).numel() == 0:
        return
    b.write(text, name, "storage")
    if x.numel() and x.untyped_storage().nbytes() == 0:
        b.drop(name)


def end(b):
    """`del`: what nobody holds is not computed, and its buffer may be taken over."""
    if len(b.tensors()) > 3:
        b.drop(b.rng.choice(b.tensors()))
