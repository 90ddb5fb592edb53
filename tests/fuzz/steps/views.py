"""Views of every sort: overlapping, flipped, conjugated, of another type."""

import torch

from fuzz.literal import shape_text


def candidates(b, name: str) -> list[str]:
    """Expressions that give a view of a variable."""
    x, rng = b.get(name), b.rng
    found = [
        f"{name}.view_as({name})",
        f"{name}[None]",
        f"{name}.unsqueeze(-1)",
        f"{name}.detach()",
        f"{name}[...]",
        f"{name}.squeeze()",
        f"{name}.expand(2, *{name}.shape)",
        f"{name}.data",
        f"{name}.reshape(-1)",
        f"{name}.flatten()",
        f"{name}.resolve_conj()",
        f"{name}.contiguous()",
        f"{name}.positive()",
        f"{name}.alias_copy()" if False else f"torch.ops.aten.alias({name})",
    ]
    if x.dim():
        d = rng.randrange(x.dim())
        size = x.shape[d]
        lead = ":, " * d
        found += [
            f"{name}.movedim({d}, 0)",
            f"{name}.movedim(0, -1)",
            f"{name}.mT",
            f"{name}.flip({d})",
            f"{name}.transpose(0, {d})",
            f"{name}[{lead}1:]",
            f"{name}[{lead}::2]",
            f"{name}[{lead}:-1]",
            f"{name}.narrow({d}, 0, {size // 2})",
            f"{name}.unflatten({d}, (1, -1))",
            f"torch.broadcast_to({name}, (2, *{name}.shape))",
        ]
        if size > 0:
            found += [
                f"{name}.select({d}, {rng.randrange(size)})",
                f"{name}[{rng.randrange(-size, size) if d == 0 else 0}]"
                if x.shape[0]
                else f"{name}[:0]",
                f"{name}.unfold({d}, {min(2, size)}, 1)",
                f"{name}.chunk(2, {d})",
                f"{name}.split({max(1, size // 2)}, {d})",
                f"{name}.tensor_split(2, {d})",
            ]
            if size <= 5:
                found.append(f"{name}.unbind({d})")
        if x.dim() >= 2:
            found += [
                f"{name}.diagonal()",
                f"{name}.permute({', '.join(map(str, reversed(range(x.dim()))))})",
                f"{name}.diagonal(1)",
                f"{name}.flatten(0, 1)",
                f"{name}.swapaxes(0, 1)",
            ]
    if x.is_complex():
        found += [
            f"{name}.conj()",
            f"{name}.imag",
            f"{name}.real",
            f"torch.view_as_real({name}.resolve_conj())",
            f"{name}.conj().imag",
            f"{name}.mH" if x.dim() >= 2 else f"{name}.conj()",
        ]
    elif x.is_floating_point():
        found += [f"torch._neg_view({name})", f"{name}.real"]
        if x.dim() and x.shape[-1] == 2 and x.dtype != torch.bfloat16:
            found.append(f"torch.view_as_complex({name})")
    same_size = {1: "BOOL U8 I8", 2: "F16 BF16 I16", 4: "F32 I32", 8: "F64 I64 C64"}
    for other in same_size.get(x.element_size(), "").split():
        if x.element_size() != 1 or other != "BOOL":
            found.append(f"{name}.view({other})")
    if x.numel() >= 4 and not x.is_conj() and not x.is_neg():
        offset = x.storage_offset() + rng.randrange(2)
        found.append(f"{name}.as_strided((2, 2), ({rng.randrange(2)}, 1), {offset})")
        if x.is_contiguous():
            found.append(f"{name}.view({shape_text((1, x.numel()))})")
    return found


def view(b) -> list[str]:
    name = b.pick()
    if name is None:
        return []
    if b.rng.random() < 0.05:  # bits of a narrower or wider type
        return b.bind(f"{name}.view({b.rng.choice(['U8', 'I16', 'F32', 'F64'])})", "view_dtype")
    text = b.rng.choice(candidates(b, name))
    return b.bind(text, f"view:{text.removeprefix(name)[1:].split('(')[0].split('[')[0]}"[:20])
