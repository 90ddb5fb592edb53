"""torch's operators as programs call them, with the arguments that OpInfo knows for them.

An operator is called by its public name where it has one, and else by OpInfo's function. Samples
are kept by operator and type: OpInfo takes long to make them, and what it draws is seeded by the
name, so that they do not depend on what was asked for before.
"""

import contextlib
import dataclasses
import functools
import itertools
import random
import unittest.mock
import warnings
import zlib

import torch
from torch.utils._pytree import tree_leaves

from fuzz.literal import NoText, literal

# Samples are a CPU's. A driver that asking for a GPU has started is of no use after a fork.
with unittest.mock.patch("torch.cuda.is_available", return_value=False):
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

LARGEST = 160  # elements of a sample's tensor
LARGER = 700  # where an operator has none so small but empty ones
FIRST, MORE = 40, 80  # samples that are looked at, and where those are too large or empty
KEPT = 8  # samples of an operator and type

# What leaves memory unwritten, prints addresses, is random, or is no operator on a CPU.
LEFT_OUT = set(
    """
    empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_
    to_sparse sparse.mm sparse.sampled_addmm jiterator_unary jiterator_binary
    jiterator_4inputs_with_extra_args jiterator_binary_return_by_ref jiterator_2inputs_2outputs
    cauchy exponential geometric log_normal normal uniform multinomial bernoulli randn
    randn_like rand_like randint randint_like nn.functional.dropout nn.functional.dropout2d
    nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
    nn.functional.rrelu nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    pca_lowrank svd_lowrank torch._scaled_mm torch._scaled_mm_v2 item broadcast_shapes
    torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward
    nn.functional.multi_head_attention_forward nn.functional.scaled_dot_product_attention
    linalg.eig linalg.eigh linalg.svd svd linalg.lstsq hash_tensor geqrf ormqr chalf
    linalg.eigvals nn.functional.gaussian_nll_loss
    """.split()  # noqa: SIM905
)


def full_name(op) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


@functools.cache
def operators() -> dict:
    """OpInfo's entries by name, those that programs may call."""
    return {
        full_name(op): op
        for op in op_db
        if op.name not in LEFT_OUT and not seeds_itself(op) and op.supported_dtypes("cpu")
    }


def seeds_itself(op) -> bool:
    """Whether OpInfo's function seeds the generator and then puts the host's back."""
    code = getattr(op.op, "__code__", None)
    return code is not None and "wrapper_set_seed" in code.co_names


@functools.cache
def callee(name: str) -> str:
    """The text that calls an operator."""
    op = operators()[name]
    path = op.name.removeprefix("nn.functional.")
    for text in (f"F.{path}", f"torch.{path}", f"torch.Tensor.{path}"):
        if path == op.name and text.startswith("F."):
            continue
        try:
            found = eval(text, {"torch": torch, "F": torch.nn.functional})
        except AttributeError:
            continue
        if found is op.op or found == op.op:
            return text
    return f"OPERATORS[{name!r}]"


@functools.cache
def checks_overlap(name: str) -> bool:
    """Whether it refuses to write where elements overlap: what goes element by element does.

    Others, such as products and pooling, write beyond the memory then.
    """
    return isinstance(operators()[name], UnaryUfuncInfo | BinaryUfuncInfo)


@functools.cache
def is_unary(name: str) -> bool:
    """Goes element by element over one tensor."""
    return isinstance(operators()[name], UnaryUfuncInfo)


@functools.cache
def in_place_method(name: str) -> str | None:
    op = operators()[name]
    method = f"{op.name.rsplit('.', 1)[-1]}_"
    if op.inplace_variant and hasattr(torch.Tensor, method):
        return method
    return None


@functools.cache
def types(name: str) -> tuple:
    """The types that it takes on the CPU, the usual ones first."""
    found = operators()[name].supported_dtypes("cpu")
    return tuple(sorted(found - {torch.complex32}, key=lambda t: (t != torch.float32, str(t))))


@dataclasses.dataclass(frozen=True)
class Sample:
    """Arguments in order; the first one is the operator's input."""

    args: tuple
    kwargs: dict

    def tensors(self) -> list[torch.Tensor]:
        leaves = tree_leaves((self.args, self.kwargs))
        return [x for x in leaves if isinstance(x, torch.Tensor)]


def fits(sample: Sample, largest: int) -> bool:
    """Whether it can be written down, and is small."""
    try:
        literal((sample.args, sample.kwargs), tensor=lambda _: "")
    except NoText:
        return False
    return all(
        t.layout is torch.strided
        and t.device.type == "cpu"
        and t.numel() <= largest
        and not t.is_quantized
        for t in sample.tensors()
    )


def is_empty(sample: Sample) -> bool:
    tensors = sample.tensors()
    return bool(tensors) and tensors[0].numel() == 0


def made(op, dtype, errors: bool):
    if errors:
        return (error.sample_input for error in op.error_inputs("cpu"))
    return op.sample_inputs("cpu", dtype)


@contextlib.contextmanager
def cheaply():
    """OpInfo seeds all devices for each sample, and looks for a test on the stack: takes longer."""
    patch, only_host = unittest.mock.patch, torch.default_generator.manual_seed
    with patch("torch.manual_seed", only_host), patch("inspect.stack", list):
        yield


@functools.lru_cache(maxsize=3000)
def samples(name: str, dtype: torch.dtype, errors: bool = False) -> tuple[Sample, ...]:
    """A few, of as different shapes as the first ones have, and few of them empty."""
    op = operators()[name]
    key = zlib.crc32(f"{name}/{dtype}".encode())
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), cheaply():
        warnings.simplefilter("ignore")
        torch.manual_seed(key)
        random.seed(key)
        try:
            source = (Sample((s.input, *s.args), s.kwargs) for s in made(op, dtype, errors))
            drawn = list(itertools.islice(source, FIRST))
            if all(is_empty(s) for s in drawn if fits(s, LARGEST)):
                drawn += itertools.islice(source, MORE)
        except Exception:  # OpInfo's, for a type that it cannot sample here
            return ()
    found = [s for s in drawn[:FIRST] if fits(s, LARGEST)]
    if all(is_empty(s) for s in found):
        found = [s for s in drawn if fits(s, LARGER)]
    full = sum(not is_empty(s) for s in found)
    empty = itertools.islice(filter(is_empty, found), max(1, full // 3))
    some = set(map(id, empty))
    found = [s for s in found if not is_empty(s) or id(s) in some]
    return tuple(random.Random(key).sample(found, min(KEPT, len(found))))
