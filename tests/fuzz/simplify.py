"""Simpler forms of a statement: inner values for calls, fewer arguments, rounder numbers."""

import ast
import copy
from collections.abc import Iterator

MOST = 60  # forms of one statement


def simpler(statement: str) -> Iterator[tuple[str, ...]]:
    """Statements that may stand in its place, the most simple ones first."""
    try:
        tree = ast.parse(statement)
    except SyntaxError:
        return
    first = tree.body[0]
    if isinstance(first, ast.With | ast.For | ast.If):
        yield tuple(ast.unparse(one) for one in first.body)
    seen = {ast.unparse(tree)}
    count = 0
    for kind in (inner, fewer_arguments, numbers):
        for candidate in changed(tree, kind):
            text = ast.unparse(candidate)
            if text not in seen and count < MOST:
                seen.add(text)
                count += 1
                yield (text,)


def changed(tree: ast.AST, kind) -> Iterator[ast.AST]:
    """The tree with one node replaced by each of what `kind` makes of it."""
    for number, node in enumerate(ast.walk(tree)):
        for choice in range(len(kind(node))):
            candidate = copy.deepcopy(tree)
            place = list(ast.walk(candidate))[number]
            replacement = kind(place)[choice]
            yield Replacing(place, replacement).visit(candidate)


class Replacing(ast.NodeTransformer):
    def __init__(self, place, replacement):
        self.place, self.replacement = place, replacement

    def visit(self, node):
        return self.replacement if node is self.place else super().visit(node)


def inner(node: ast.AST) -> list[ast.AST]:
    """`x` for `x.view(3)`, `x[1:]` and `f(x, y)`; an operand for `x + y`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        base = node.func.value
        if isinstance(base, ast.Name) and base.id in ("torch", "F", "nn", "fwad"):
            return [
                arg for arg in node.args if isinstance(arg, ast.Name | ast.Call | ast.Subscript)
            ]
        return [] if isinstance(base, ast.Attribute) else [base]
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return [node.value]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return []


def fewer_arguments(node: ast.AST) -> list[ast.AST]:
    found = []
    if isinstance(node, ast.Call):
        for i, keyword in enumerate(node.keywords):
            if keyword.arg == "device":
                continue
            found.append(ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :]))
        if len(node.args) > 1:
            found.append(ast.Call(node.func, node.args[:-1], node.keywords))
    return found


def numbers(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        return [ast.Tuple(node.elts[1:], ast.Load())]
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
        return [ast.Constant(1), ast.Constant(2)][: 1 + (node.value > 2)]
    if (
        isinstance(node, ast.Constant)
        and type(node.value) is float
        and node.value not in (0.5, 1.0)
    ):
        return [ast.Constant(1.0), ast.Constant(0.5)]
    if isinstance(node, ast.Attribute) and node.attr in ("float64", "float16", "bfloat16"):
        return [ast.Attribute(node.value, "float32", ast.Load())]
    if isinstance(node, ast.Name) and node.id in ("F64", "F16", "BF16", "C128"):
        return [ast.Name("F32", ast.Load())]
    return []
