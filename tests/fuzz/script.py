"""A program as a test to paste: what it needs, its statements, and what differs."""

import re
import textwrap

from fuzz.oracle import Difference
from fuzz.program import Program, assigned, variables

PRELUDE = """\
def normal(shape, seed, dtype=torch.float32):
    source = torch.Generator().manual_seed(seed + 1000 * turn)
    drawn = torch.complex128 if dtype.is_complex else torch.float64
    x = torch.randn(shape, generator=source, dtype=drawn)
    if dtype == torch.bool:
        return (x > 0).to(dev)
    if not (dtype.is_floating_point or dtype.is_complex):
        x = (x * 3).round().abs() if dtype == torch.uint8 else (x * 3).round()
    return x.to(dtype).to(dev)


def data(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to(dev)


def dense(gradients):
    return [g if g is None else g.clone(memory_format=torch.contiguous_format) for g in gradients]


def twin(x, seed):
    return x.detach() if turn % 2 else normal(x.shape, seed - 1000 * turn, x.dtype)


def module(made, seed):
    for i, part in enumerate(made.modules()):
        for name, p in part.named_parameters(recurse=False):
            part._parameters[name] = nn.Parameter(normal(p.shape, seed + i) * 0.5)
        for name, t in part.named_buffers(recurse=False):
            part._buffers[name] = t.to(dev).clone()
    if isinstance(made, nn.RNNBase):
        made._init_flat_weights()
    return made


"""
TYPES = """BOOL U8 I8 I16 I32 I64 F16 BF16 F32 F64 C64 C128 = bool uint8 int8 int16 int32 int64
float16 bfloat16 float32 float64 complex64 complex128"""


def imports(body: str) -> str:
    lines = ["import torch", "from differential import assert_same"]
    known = {
        "F": "import torch.nn.functional as F",
        "nn": "from torch import nn",
        "fwad": "import torch.autograd.forward_ad as fwad",
        "checkpoint": "from torch.utils.checkpoint import checkpoint",
        "copy": "import copy",
        **{
            name: f"from differential import {name}"
            for name in ("Double", "Mutating", "Several", "Viewing")
        },
        "OPERATORS": "from fuzz.scope import OPERATORS",
    }
    lines += [line for name, line in known.items() if re.search(rf"\b{name}\b", body)]
    short, long = TYPES.replace("\n", " ").split(" = ")
    pairs = zip(short.split(), long.split(), strict=True)
    lines += [f"{a} = torch.{b}" for a, b in pairs if re.search(rf"\b{a}\b", body)]
    return "\n".join(lines)


def helpers(body: str, turn: str) -> str:
    """Only those that the statements call, and those that these call."""
    blocks = [b for b in PRELUDE.split("\n\n\n") if b.strip()]
    names = [re.match(r"def (\w+)", b)[1] for b in blocks]
    used = {n for n in names if re.search(rf"\b{n}\(", body)}
    if used & {"twin", "module"}:
        used.add("normal")
    kept = "\n\n".join(b for n, b in zip(names, blocks, strict=True) if n in used)
    return kept.replace("seed + 1000 * turn", "seed") if turn == "0" else kept


def result_names(program: Program) -> list[str]:
    names = []
    for text in program.statements:
        names += assigned(text)
        if text.startswith("del "):
            names = [n for n in names if n not in variables(text)]
    return [n for n in dict.fromkeys(names) if n[0] in "vrh"]


def script(program: Program, difference: Difference | None = None, vanishes=()) -> str:
    body = "\n".join(program.statements)
    last = f"return {', '.join(result_names(program)) or 'None'}"
    several = program.turns > 1
    parts = ["turn = 0"] if not several and "twin(" in body else []
    parts += [f"n = 3{' + turn' if several else ''}"] if re.search(r"\bn\b", body) else []
    inside = "\n\n".join(
        p for p in ["\n".join(parts), helpers(body, "turn" if several else "0")] if p
    )
    text = f"{inside}\n\n{body}\n{last}" if inside else f"{body}\n{last}"
    if several:
        text = f"def once(turn):\n{textwrap.indent(text, '    ')}\n\n"
        text += f"return [once(turn) for turn in range({program.turns})]"
    about = [f"# {line}" for line in str(difference or "").split("\n") if line]
    about += [f"# vanishes without: {', '.join(vanishes) or 'no setting'}"] if difference else []
    return "\n".join(
        [
            *about,
            imports(body),
            "",
            "",
            "def test_program():",
            "    def program(dev):",
            textwrap.indent(text, " " * 8),
            "",
            "    assert_same(program)",
            "",
        ]
    )
