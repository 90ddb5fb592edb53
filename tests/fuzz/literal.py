"""Python values as the text of a statement."""

import torch

from fuzz.scope import NAME_OF


class NoText(Exception):
    """The value cannot be written down."""


FORMATS = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)


def literal(x, tensor=None) -> str:
    """`tensor` says how a tensor within is written."""
    if isinstance(x, torch.Tensor):
        if tensor is None:
            raise NoText
        return tensor(x)
    if x is None or x is Ellipsis or isinstance(x, bool | int | float | complex):
        return "..." if x is Ellipsis else repr(x)
    if isinstance(x, str):
        return "dev" if x in ("cpu", "cuda") else repr(x)
    if isinstance(x, torch.dtype) and x in NAME_OF:
        return NAME_OF[x]
    if isinstance(x, torch.device):
        return "dev"
    if isinstance(x, torch.layout) or x in (*FORMATS, torch.preserve_format):
        return str(x)
    if isinstance(x, slice):
        return f"slice({', '.join(literal(part, tensor) for part in (x.start, x.stop, x.step))})"
    if type(x) in (tuple, torch.Size):
        inside = [literal(one, tensor) for one in x]
        return f"({inside[0]},)" if len(inside) == 1 else f"({', '.join(inside)})"
    if type(x) is list:
        return f"[{', '.join(literal(one, tensor) for one in x)}]"
    if type(x) is dict:
        inside = (f"{literal(key)}: {literal(one, tensor)}" for key, one in x.items())
        return f"{{{', '.join(inside)}}}"
    raise NoText


def shape_text(shape) -> str:
    sizes = ", ".join(map(str, shape))
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


def rounded(values):
    """A tensor's tolist() with few digits."""
    if isinstance(values, list):
        return [rounded(one) for one in values]
    if isinstance(values, complex):
        return complex(round(values.real, 2), round(values.imag, 2))
    return round(values, 2) if isinstance(values, float) else values
