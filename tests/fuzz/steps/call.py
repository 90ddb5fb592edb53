"""Any of torch's operators on what the program has: as a function, in place, and into `out`."""

import re

import torch

from fuzz import adapt, catalog, common_ops
from fuzz.builder import tensors_in
from fuzz.literal import literal, shape_text
from fuzz.program import variables
from fuzz.scope import NAME_OF


def some_operator(b) -> str:
    if b.rng.random() < 0.5:
        return b.rng.choice(common_ops.common())
    return b.rng.choice(list(catalog.operators()))


def some_type(b, name: str, wanted=None):
    types = catalog.types(name)
    if wanted in types and b.rng.random() < 0.9:
        return wanted
    if b.rng.random() < 0.6:
        return types[0]
    return b.rng.choice(types)


def some_sample(b, name: str, dtype):
    errors = b.rng.random() < 0.02 and catalog.operators()[name].error_inputs_func is not None
    found = catalog.samples(name, torch.float32 if errors else dtype, errors)
    return b.rng.choice(found) if found else None


class Operands:
    """Writes a sample's tensors as expressions over variables. `first`: one that has to be used.

    `apart`: the operator writes some of them, so that no two may share memory: the first alone may
    be a variable that is there already. `any_shape`: the operator takes it as it is.
    """

    def __init__(self, b, first: str | None = None, apart=False, any_shape=False):
        self.b, self.first, self.apart, self.used = b, first, apart, []
        self.any_shape = any_shape
        self.count = 0  # of those written

    def __call__(self, t: torch.Tensor) -> str:
        b = self.b
        self.count += 1
        if self.apart and self.count > 1:
            return (b.bind(adapt.fresh(t, b.rng), "create") or ["None"])[0]
        if self.first is not None:
            name, self.first = self.first, None
            if found := self.over(name, t, t.shape):
                return found
            if self.any_shape and (found := self.over(name, t, b.get(name).shape)):
                return found  # nothing leads there, as from what is empty
        same = [n for n in b.tensors(lambda x: x.dtype == t.dtype and x.shape == t.shape)]
        if same and b.rng.random() < 0.7:
            return self.over(b.rng.choice(same), t, t.shape)
        index = not (t.is_floating_point() or t.is_complex()) and t.dtype != torch.bool
        if (
            b.rng.random() < (0.25 if index else 0.7)
            and (name := b.pick())
            and (found := self.over(name, t, t.shape))
        ):
            return found
        if b.rng.random() < 0.2:  # a variable of its own, that others may meet
            return (b.bind(adapt.fresh(t, b.rng), "create") or ["None"])[0]
        return adapt.fresh(t, b.rng)

    def over(self, name: str, t: torch.Tensor, shape) -> str | None:
        b = self.b
        text = adapt.adapted(name, b.get(name), shape, t.dtype, b.rng)
        if text is None:
            return None
        if b.rng.random() < 0.93:
            text = adapt.within(text, t)
        self.used.append(name)
        if text != name and b.rng.random() < 0.15:  # the view itself becomes a variable
            text = (b.bind(text, b.producer.get(name, "view")) or [text])[0]
        return text


def arguments(sample, operands) -> list[str]:
    texts = [literal(x, operands) for x in sample.args]
    if not sample.tensors() and "device" not in sample.kwargs:
        texts.append("device=dev")
    return texts + [f"{key}={literal(x, operands)}" for key, x in sample.kwargs.items()]


def call(b, name: str | None = None, first: str | None = None) -> list[str]:
    """Calls an operator, on `first` if it can; the names of its results, none where it raised."""
    name = name or some_operator(b)
    wanted = b.get(first).dtype if first else None
    dtype = some_type(b, name, wanted)
    sample = some_sample(b, name, dtype)
    if sample is None:
        return []
    apart = "batch_norm" in name or "instance_norm" in name
    operands = Operands(b, first, apart, any_shape=catalog.is_unary(name))
    texts = arguments(sample, operands)
    if first and not sample.tensors() and catalog.operators()[name].supports_out:
        return into(b, name, texts, first)
    producers = b.producers(operands.used)
    results = called(b, name, texts)
    if results:
        b.met(producers, name)
    return results


def called(b, name: str, texts: list[str]) -> list[str]:
    """As a function, in place, into `out`, or anew in backward."""
    way = b.rng.random()
    if way < 0.2 and (method := catalog.in_place_method(name)):
        return in_place(b, name, method, texts)
    if way < 0.32 and catalog.operators()[name].supports_out:
        return into(b, name, texts)
    expression = f"{catalog.callee(name)}({', '.join(texts)})"
    if way > 0.985:
        body = f"{catalog.callee(name)}({', '.join(['x', *texts[1:]])})"
        expression = f"checkpoint(lambda x: {body}, {texts[0]}, use_reentrant=False)"
    return b.bind(expression, name)


def in_place(b, name: str, method: str, texts: list[str]) -> list[str]:
    target = texts[0]
    if is_temporary(b, target):
        names = b.bind(target, "create")
        if not names:
            return []
        target = names[0]
    text = f"{target}.{method}({', '.join(texts[1:])})"
    root = target.split("[")[0].split(".")[0]
    seen = b.ask(target)
    if not isinstance(seen, torch.Tensor):
        return []
    if adapt.overlaps(seen, refused=catalog.checks_overlap(name)):
        return []
    if collides(b, seen, texts[1:]):
        return []
    if method.startswith(PLACING) and any(
        shares(b, root, one) for one in variables(text) if one != root
    ):
        return []
    if b.rng.random() < 0.25 and b.wants_grad:
        text = f"with torch.no_grad():\n    {text}"
    return [root] if b.write(text, root, name) else []


def is_temporary(b, text: str) -> bool:
    """Whether nothing that the program has shows what is written there."""
    found, root = b.ask(text), b.namespace.get(re.split(r"[.\[]", text)[0])
    tensors = isinstance(found, torch.Tensor) and isinstance(root, torch.Tensor)
    return not tensors or found.untyped_storage()._cdata != root.untyped_storage()._cdata


# They read and write in an order that nobody promises, where operands overlap.
PLACING = ("index_", "scatter_", "put_", "masked_scatter_")


def collides(b, target, arguments: list[str]) -> bool:
    values = (b.ask(re.sub(r"^\w+=", "", text)) for text in arguments)
    return any(adapt.collide(target, value) for value in values)


def shares(b, name: str, other: str) -> bool:
    x, y = b.namespace.get(name), b.namespace.get(other)
    if not (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)):
        return False
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


def into(b, name: str, texts: list[str], target: str | None = None) -> list[str]:
    """With `out=`: as it should be, of another shape or type, or overlapping what is read.

    `target`: what another operator has made, which it writes over.
    """
    function = catalog.callee(name)
    result = b.ask(f"{function}({', '.join(texts)})")
    if not isinstance(result, torch.Tensor):
        parts = tensors_in(result) if not isinstance(result, Exception) else []
        if not parts:
            return []
        outs = [b.bind(out_for(b, t, texts, plain=True), "create") for t in parts]
        if not all(outs):
            return []
        names = [one[0] for one in outs]
        text = f"{function}({', '.join([*texts, f'out=({chr(44).join(names)})'])})"
        return names if b.write(text, names[0], name) else []
    before = b.producers([target]) if target else []
    target = target or out_for(b, result, texts)
    if target not in b.namespace:
        target = (b.bind(target, "create") or [None])[0]
    if target is None:
        return []
    if adapt.overlaps(b.get(target), refused=catalog.checks_overlap(name)):
        return []
    if collides(b, b.get(target), texts):
        return []
    read = [one for text in texts for one in variables(text)]
    if b.get(target).shape != result.shape and any(shares(b, target, one) for one in read):
        return []  # resized, it would be read where nobody wrote
    text = f"{function}({', '.join([*texts, f'out={target}'])})"
    if b.get(target).requires_grad or b.rng.random() < 0.5:
        text = f"with torch.no_grad():\n    {text}"
    shape = b.get(target).shape
    if b.write(text, target, name):
        b.met(before, name)
        return [target]
    if b.get(target).shape != shape:
        b.drop(target)  # it was resized, and nothing was written
    return []


def out_for(b, t: torch.Tensor, texts, plain=False) -> str:
    kind, shape = NAME_OF.get(t.dtype, "F32"), shape_text(t.shape)
    way = 0 if plain else b.rng.random()
    if way < 0.35:
        same = b.tensors(lambda x: x.dtype == t.dtype and x.shape == t.shape)
        if same and not plain:
            return b.rng.choice(same)
        return f"torch.ones({shape}, dtype={kind}, device=dev)"
    if way < 0.5:
        return f"torch.ones((*{shape}, 2), dtype={kind}, device=dev)[..., 0]"
    if way < 0.65:
        return f"torch.empty(0, dtype={kind}, device=dev)"
    if way < 0.75:
        return f"torch.ones((2, *{shape}), dtype={kind}, device=dev)"
    if way < 0.85:
        other = b.rng.choice(["F64", "F32", "I64", "F16"])
        return f"torch.ones({shape}, dtype={other}, device=dev)"
    if texts and texts[0] in b.namespace:  # what it reads
        return texts[0]
    return f"torch.zeros({shape}, dtype={kind}, device=dev)"
