"""What arithmetic and fills do to scores: scale them, add to them, or hide some."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from patchgen.author.anatomy.alike import alike
from patchgen.author.anatomy.code import VIEWS, called, dotted, method_of, receiver, shortened
from patchgen.author.anatomy.operations import is_minimum, is_per_head, is_scalar
from patchgen.author.anatomy.scores import Factor, Scores, Term
from patchgen.author.anatomy.tracking import Tracking


@dataclass(frozen=True)
class Fill:
    """`target` is set to `number` where `hidden` is true."""

    target: ast.expr
    hidden: ast.expr
    number: ast.expr


def fill(node: ast.Call) -> Fill | None:
    """The fill that `node` is: `masked_fill` or `torch.where`."""
    if called(node) == "torch.masked_fill":
        return Fill(node.args[0], node.args[-2], node.args[-1])
    if method_of(node) in ("masked_fill", "masked_fill_"):
        return Fill(receiver(node), node.args[-2], node.args[-1])
    if called(node) == "torch.where" and len(node.args) == 3:
        return Fill(node.args[1], ast.UnaryOp(ast.Invert(), node.args[0]), node.args[2])
    return None


def hidden(walk: Tracking, node: ast.expr, scores: Scores, filled: Fill) -> Scores | None:
    """`scores` without those that `filled` sets to a number that hides."""
    if not _hides(walk, filled.number):
        walk.use(node, f"scores are set to `{shortened(filled.number)}`")
        return None
    return plus(walk, scores, "hide", filled.hidden)


def _hides(walk: Tracking, number: ast.expr, above: frozenset[str] = frozenset()) -> bool:
    """Whether `number` hides a score: a number, a tensor of it, or a name for nothing else."""
    if is_minimum(number):
        return True
    if isinstance(number, ast.Call) and number.args:
        return any(_hides(walk, arg, above) for arg in number.args)
    if not isinstance(number, ast.Name):
        return False
    # `value = torch.tensor(value)` binds a name to itself again: look at its other values.
    if number.id in above:
        return True
    made = walk.made(number)
    return bool(made) and all(_hides(walk, value, above | {number.id}) for value in made)


def plus(walk: Tracking, scores: Scores, kind: str, value: ast.expr) -> Scores:
    """`scores` with a term of `kind`."""
    return replace(scores, terms=(*scores.terms, walk.term(kind, walk.plain(value))))


def arithmetic(walk: Tracking, node: ast.BinOp, scores: Scores, other: ast.expr) -> Scores | None:
    """The value of `node`, whose operands are `scores` and the expression `other`."""
    is_left = other is node.right
    if isinstance(node.op, ast.Sub) and is_left and _is_row_maximum(walk, other):
        return scores  # Softmax does not change if all keys of a query are shifted equally.
    if isinstance(node.op, ast.Add):
        return plus(walk, scores, "add", other)
    if isinstance(node.op, ast.Sub) and is_left:
        return plus(walk, scores, "add", ast.UnaryOp(ast.USub(), other))
    if isinstance(node.op, ast.Mult) or (isinstance(node.op, ast.Div) and is_left):
        return _scaled(walk, node, scores, "*" if isinstance(node.op, ast.Mult) else "/", other)
    walk.use(node, f"the scores go into `{shortened(node)}`")
    return None


def triangle(walk: Tracking, node: ast.BinOp) -> Fill | None:
    """The fill that `scores * seen + number * (1 - seen)` is; `seen` is a triangle of ones."""
    match node:
        case ast.BinOp(
            left=ast.BinOp(left=target, op=ast.Mult(), right=seen),
            op=ast.Add(),
            right=ast.BinOp(
                left=number,
                op=ast.Mult(),
                right=ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=same),
            ),
        ) if alike(seen, same) and is_minimum(number) and _is_triangle(walk, seen):
            return Fill(target, ast.Compare(seen, [ast.Eq()], [ast.Constant(0)]), number)
        case _:
            return None


def _is_triangle(walk: Tracking, node: ast.expr) -> bool:
    """Whether `node` has only zeros and ones: it is `torch.tril` of ones, or a part of it."""
    match node:
        case ast.Name():
            made = walk.made(node)
            return bool(made) and all(_is_triangle(walk, value) for value in made)
        case ast.Subscript(value=value):
            return _is_triangle(walk, value)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            values = walk.owner.attributes.get(name, ())
            return bool(values) and all(_is_triangle(walk, value) for value in values)
        case ast.Call(args=[inner, *_]) if called(node) in ("nn.Buffer", "torch.tril"):
            return _is_triangle(walk, inner)
        case ast.Call() if method_of(node) in VIEWS:
            return _is_triangle(walk, receiver(node))
        case ast.Call():
            return called(node) == "torch.ones"
        case _:
            return False


def _is_row_maximum(walk: Tracking, node: ast.expr) -> bool:
    """Whether `node` has one number for each query: the largest of its scores."""
    if isinstance(node, ast.Name):
        made = walk.made(node)
        return len(made) == 1 and _is_row_maximum(walk, made[0])
    text = ast.unparse(node)
    return text.endswith((".amax(dim=-1).unsqueeze(-1)", ".amax(dim=-1, keepdim=True)"))


def _scaled(
    walk: Tracking, node: ast.expr, scores: Scores, operator: str, other: ast.expr
) -> Scores | None:
    is_number = is_scalar(other, walk.owner)
    if not is_number and operator == "*" and not scores.terms:
        if is_per_head(other, walk.method, walk.owner):
            # One factor for each head: the queries can be scaled instead.
            return replace(scores, query=walk.given(ast.BinOp(scores.query, ast.Mult(), other)))
    if not is_number and dotted(other) not in walk.numbers:
        what = f"`{shortened(other)}`, which scales the scores, may be more than one number"
        walk.use(node, what)
        return None
    factor = walk.factor(operator, other)
    terms = tuple(_times(term, factor) for term in scores.terms)
    return replace(scores, factors=(*scores.factors, factor), terms=terms)


def _times(term: Term, factor: Factor) -> Term:
    """`term` under one more factor; a hidden score stays hidden at any scale."""
    return term if term.kind == "hide" else replace(term, factors=(*term.factors, factor))
