"""External calls of our own operators: numbers of the run, and operands whose rows lie apart."""

import torch

LIBRARY = torch.library.Library("lazuli", "FRAGMENT")

# Gives x and where it was told to draw, as numbers.
LIBRARY.define("_test_draw(Tensor x, float scale, int seed, int offset, int drawn) -> Tensor")
# Gives x, and its strides. Attention's operands may lie in a larger tensor.
LIBRARY.define("attention_test(Tensor x) -> (Tensor, Tensor)")


@torch.library.impl(LIBRARY, "_test_draw", "CPU")
def draw(x, scale, seed, offset, drawn):
    return x * scale + torch.tensor([seed, offset], dtype=x.dtype)


@torch.library.impl(LIBRARY, "_test_draw", "Meta")
def draw_meta(x, scale, seed, offset, drawn):
    return torch.empty_like(x)


@torch.library.impl(LIBRARY, "attention_test", "CPU")
def rows(x):
    return x.clone(memory_format=torch.contiguous_format), torch.tensor(x.stride())


@torch.library.impl(LIBRARY, "attention_test", "Meta")
def rows_meta(x):
    return x.new_empty(x.shape), x.new_empty(x.dim(), dtype=torch.int64)


def call(x, seed, offset):
    return torch.ops.lazuli._test_draw(x, 2.0, seed, offset, 8)


def one_call_after_another(step):
    x = torch.full((3, 2), float(step))
    want = ((x + 1) * 2 + torch.tensor([5.0 + step, -10.0 * step])) * 3
    want = want * 2 + torch.tensor([2.0**40 * step, step])
    between = call(x.to("lazuli") + 1, 5 + step, -10 * step) * 3
    got = call(between, 2**40 * step, step)
    torch.testing.assert_close(got.cpu(), want)


def test_numbers_are_those_of_each_call():
    """One trace serves them all, planned or not: where a call draws is no part of its identity."""
    with torch.lazuli.config.patch(unplanned="auto"):
        for step in range(10):
            before = torch.lazuli.metrics()
            one_call_after_another(step)
            after = torch.lazuli.metrics()
    assert after["traces_reused"] == before["traces_reused"] + 1
    assert after["traces_compiled"] == before["traces_compiled"]


def test_a_call_reads_memory_that_holds_a_number_too():
    """A tensor that is only a number so far is memory to it all the same."""
    for step in range(8):
        got = call(torch.full((), float(step), device="lazuli").expand(2), 1 + step, 2)
        torch.testing.assert_close(got.cpu(), step * 2 + torch.tensor([1.0 + step, 2.0]))


def test_rows_that_lie_apart():
    """Queries, keys and values are parts of one product's rows: they are read where they lie."""
    strides = set()
    for step in range(8):
        x = torch.randn(2, 5, 3 * 32) + step
        ours = x.to("lazuli") * 2
        parts = zip((x * 2).split(32, -1), ours.split(32, -1), strict=True)
        for i, (want, part) in enumerate(parts):
            heads = [t.view(2, 5, 4, 8).transpose(1, 2) for t in (want, part)]
            got, lies = torch.ops.lazuli.attention_test(heads[1] if i else heads[1][..., :7])
            torch.testing.assert_close(got.cpu(), heads[0] if i else heads[0][..., :7])
            strides.add((i, tuple(lies.tolist())))
        transposed = ours.transpose(0, 2)
        got, _ = torch.ops.lazuli.attention_test(transposed)
        torch.testing.assert_close(got.cpu(), (x * 2).transpose(0, 2))
    assert {(1, (480, 8, 96, 1)), (2, (480, 8, 96, 1))} <= strides
