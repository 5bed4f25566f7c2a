"""Three versions of a statement without suites as one.

base     x = self.attn(x)
ours     x = self.attn(x, seq=seq)
theirs   x, _ = self.attn(x)
merged   x, _ = self.attn(x, seq=seq)
"""

from __future__ import annotations

import ast

from patchgen.author.rebase.expressions import merge_expression
from patchgen.author.rebase.sides import Clash, Three
from patchgen.syntax.same import plain_text


def merge_simple(three: Three, base: ast.stmt, ours: ast.stmt, theirs: ast.stmt) -> str | Clash:
    """A statement without suites, in which both sides changed something."""
    base, ours, theirs = _assignment(base), _assignment(ours), _assignment(theirs)
    clash = three.clash("both changed this statement", base, ours, theirs)
    match base, ours, theirs:
        case (
            ast.Return(value=ast.expr() as a) | ast.Expr(value=a),
            ast.Return(value=ast.expr() as b) | ast.Expr(value=b),
            ast.Return(value=ast.expr() as c) | ast.Expr(value=c),
        ) if type(base) is type(ours) is type(theirs):
            value = merge_expression(three, a, b, c)
            if isinstance(value, Clash):
                return value
            return three.theirs.spliced(theirs, [(c, value)])
        case (
            ast.Assign() | ast.AugAssign(),
            ast.Assign() | ast.AugAssign(),
            ast.Assign() | ast.AugAssign(),
        ) if type(base) is type(ours) is type(theirs):
            return _merge_assignment(three, base, ours, theirs)
        case _:
            return clash


def _assignment(node: ast.stmt) -> ast.stmt:
    """An assignment without its annotation, which documents."""
    if not isinstance(node, ast.AnnAssign) or node.value is None:
        return node
    return ast.copy_location(ast.Assign([node.target], node.value), node)


def _merge_assignment(
    three: Three,
    base: ast.Assign | ast.AugAssign,
    ours: ast.Assign | ast.AugAssign,
    theirs: ast.Assign | ast.AugAssign,
) -> str | Clash:
    """An assignment whose targets one side changed at most, and none whose value was replaced."""
    targets = [_target_text(node) for node in (base, ours, theirs)]
    value = merge_expression(three, base.value, ours.value, theirs.value)
    if isinstance(value, Clash):
        return value
    if len(set(targets)) > 1:
        # What a call gives is taken apart in another way: only its arguments may differ beside.
        called = {
            plain_text(n.value.func) if isinstance(n.value, ast.Call) else ""
            for n in (base, ours, theirs)
        }
        if "" in called or len(called) > 1 or targets[0] not in targets[1:]:
            return three.clash("both changed this assignment", base, ours, theirs)
        if targets[1] != targets[0]:
            return three.ours.spliced(ours, [(ours.value, value)])
    return three.theirs.spliced(theirs, [(theirs.value, value)])


def _target_text(node: ast.Assign | ast.AugAssign) -> str:
    if isinstance(node, ast.Assign):
        return "=".join(map(plain_text, node.targets))
    return f"{type(node.op).__name__} {plain_text(node.target)}"
