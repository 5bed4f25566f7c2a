"""Evaluate expressions symbolically: what they do to scores, probabilities and contexts.

An operation that no attention does with them is recorded as a use.  A use inside an attention
prevents that it is replaced.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from patchgen.author.anatomy.alike import alike
from patchgen.author.anatomy.code import (
    CASTS,
    VIEWS,
    argument,
    called,
    constant,
    method_of,
    parsed,
    receiver,
    shortened,
)
from patchgen.author.anatomy.joints import concatenation, sum_of_products
from patchgen.author.anatomy.operations import (
    Product,
    dropout_of,
    is_zero,
    product,
    softmax_of,
    transposed,
)
from patchgen.author.anatomy.scores import (
    Context,
    Factor,
    Gone,
    Probabilities,
    Scores,
    Term,
    Unplaced,
    Value,
)
from patchgen.author.anatomy.terms import Fill, arithmetic, fill, hidden, triangle
from patchgen.author.anatomy.tracking import Tracking

# These fold heads into the batch and back; another order of axes would change the product.
SHAPED = VIEWS - {"transpose", "permute"}
QUESTIONS = frozenset({"size", "dim", "amax"})
# Reading these does not use the values of the scores.
_SHAPES = frozenset({"dtype", "device", "shape", "size", "dim", "ndim"})


@dataclass
class Expressions(Tracking):
    """Evaluates the expressions of one statement after the other."""

    def value(self, node: ast.expr) -> Value | None:
        """The value of `node`; None if it is not tracked."""
        match node:
            case ast.Name(id=name):
                return self.env.get(name)
            case ast.Constant(value=None):
                return Gone()
            case ast.BinOp() if not isinstance(node.op, ast.MatMult):
                return self._arithmetic(node)
            case ast.Call() | ast.BinOp():
                return self._operation(node)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                name in self.env and attr in _SHAPES
            ):
                return None
            case ast.IfExp(body=body, orelse=orelse):
                return self._conditional(node, body, orelse)
            case ast.Tuple() | ast.List() | ast.Dict() | ast.Starred():
                # Weights may be collected.
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)
                return None
            case _:
                return self.others(node)

    def others(self, node: ast.AST) -> Value | None:
        """Record the scores that `node` reads: it is no operation of an attention."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword):
                child = child.value
            if not isinstance(child, ast.expr):
                continue
            found = self.value(child)
            if isinstance(found, Scores | Probabilities):
                self.blame(child)
                what = "scores" if isinstance(found, Scores) else "weights"
                self.use(node, f"the {what} go into `{shortened(node)}`")
        return None

    def _conditional(self, node: ast.IfExp, body: ast.expr, orelse: ast.expr) -> Value | None:
        one, other = self.value(body), self.value(orelse)
        if isinstance(one, Probabilities | Scores) and isinstance(other, Gone):
            return one
        if isinstance(other, Probabilities | Scores) and isinstance(one, Gone):
            return other
        return one if alike(one, other) else self.others(node)

    def _arithmetic(self, node: ast.BinOp) -> Value | None:
        if (filled := triangle(self, node)) is not None:
            return self._filled(node, filled)
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, Scores) and isinstance(right, Scores) and isinstance(node.op, ast.Add):
            if (whole := sum_of_products(left, right)) is not None:
                return self.product_given(whole)
        if isinstance(left, Scores) and not isinstance(right, Scores | Probabilities):
            return arithmetic(self, node, left, node.right)
        if isinstance(right, Scores) and not isinstance(left, Scores | Probabilities):
            return arithmetic(self, node, right, node.left)
        tracked = [one for one in (left, right) if isinstance(one, Scores | Probabilities)]
        if tracked:
            self.blame(node.right)
            both = len(tracked) == 2
            self.use(
                node, "two products are added" if both else "weights are changed after softmax"
            )
        return None

    def _operation(self, node: ast.Call | ast.BinOp) -> Value | None:
        if (found := product(node, self.owner)) is not None:
            return self._product(node, found)
        assert isinstance(node, ast.Call)
        if (inner := softmax_of(node, self.owner)) is not None:
            return self._softmax(node, self.value(inner))
        if (dropped := dropout_of(node, self.owner)) is not None:
            return self._dropout(node, self.value(dropped[0]), dropped[1])
        if called(node) == "torch.cat" and (whole := self._concatenation(node)) is not None:
            return self.product_given(whole)
        if called(node) == "torch.baddbmm" or method_of(node) == "baddbmm":
            return self._baddbmm(node)
        if (filled := fill(node)) is not None and (value := self._filled(node, filled)) is not None:
            return value
        if called(node) == "torch.max" and len(node.args) == 2:
            # Only minus infinity is below the minimum of the dtype: the scores stay as they are.
            scores, minimum = node.args
            if "finfo" in ast.unparse(minimum):
                return self.value(scores)
        return self._method(node)

    def _concatenation(self, node: ast.Call) -> Scores | None:
        pieces = node.args[0] if node.args else None
        found = [self.value(one) for one in pieces.elts] if isinstance(pieces, ast.List) else []
        parts = [one for one in found if isinstance(one, Scores)]
        if not parts or len(parts) < len(found):
            return None
        return concatenation(parts, constant(argument(node, 1, "dim")), self.is_same)

    def product_given(self, scores: Scores) -> Scores:
        """`scores`, with query and key as they are at this statement."""
        return replace(scores, query=self.given(scores.query), key=self.given(scores.key))

    def _filled(self, node: ast.expr, filled: Fill) -> Value | None:
        found = self.value(filled.target)
        if isinstance(found, Scores):
            return hidden(self, node, found, filled)
        if isinstance(found, Probabilities):
            if is_zero(filled.number):
                for term in reversed(found.scores.terms):
                    if term.kind == "hide" and alike(term.value, filled.hidden):
                        return replace(found, zeroed=(*found.zeroed, term))
            self.use(node, "weights are changed after softmax")
        return None

    def _method(self, node: ast.Call) -> Value | None:
        """The value of a view or a cast; any other method of a tracked value is a use."""
        name = method_of(node)
        if name in SHAPED | CASTS | QUESTIONS:
            found = self.value(receiver(node))
            if found is not None:
                if name in QUESTIONS or isinstance(found, Context):
                    return None
                return _with_heads(node, found)
        if name == "append" and len(node.args) == 1:
            self.value(node.args[0])
            return None
        if name in ("expand_as", "reshape_as"):
            return None
        return self.others(node)

    def _product(self, node: ast.expr, found: Product) -> Value | None:
        one, other = self.value(found.left), self.value(found.right)
        if isinstance(one, Probabilities) and other is None:
            context = Context(one, self.given(self.plain(found.right)), node, found.axes)
            if not any(known.node is node for known, _ in self.contexts):
                self.contexts.append((context, self.index))
            return context
        if one is None and other is None:
            return None if found.axes else self._scores(found.left, found.right)
        if isinstance(one, Scores | Probabilities) or isinstance(other, Scores | Probabilities):
            self.use(node, f"`{shortened(node)}` is no product of weights and values")
        return None

    def _scores(self, left: ast.expr, right: ast.expr) -> Scores:
        query, key = _as_key(self.plain(left), self.plain(right))
        return Scores(self.index, self.given(query), self.given(key))

    def _softmax(self, node: ast.expr, found: Value | None) -> Value | None:
        if isinstance(found, Scores):
            self.softmaxes += 1
            return Probabilities(found)
        if isinstance(found, Probabilities):
            self.use(node, "softmax is taken twice")
        elif self.uses:
            self.failures.append(Unplaced(node, self.uses[-1][2]))
        return None

    def _dropout(self, node: ast.expr, found: Value | None, rate: ast.expr) -> Value | None:
        if isinstance(found, Probabilities):
            if found.dropout is not None:
                self.use(node, "there are two dropouts of the weights")
            if self.condition is not None:
                rate = self.given(ast.IfExp(self.condition, rate, ast.Constant(0.0)))
            return replace(found, dropout=rate)
        if isinstance(found, Scores):
            self.use(node, "there is a dropout of the scores")
        return None

    def _baddbmm(self, node: ast.Call) -> Value | None:
        """`torch.baddbmm`, which is input * beta + (batch1 @ batch2) * alpha."""
        own = called(node) != "torch.baddbmm"
        added = receiver(node) if own else argument(node, 0, "input")
        shift = 0 if own else 1
        left, right = argument(node, shift, "batch1"), argument(node, shift + 1, "batch2")
        if added is None or left is None or right is None:
            return None
        scores = self._scores(left, right)
        alpha, beta = argument(node, 9, "alpha"), argument(node, 9, "beta")
        factors = (Factor("*", alpha),) if alpha is not None else ()
        if self._is_empty(added) or constant(beta) == 0:
            return replace(scores, factors=factors)
        scale: tuple[Factor, ...] = ()
        if beta is not None and constant(beta) != 1:
            scale = (Factor("*", beta),)
        term = Term("add", self.given(added), None, scale)
        return replace(scores, factors=factors, terms=(term,))

    def _is_empty(self, node: ast.expr) -> bool:
        """Whether `node` is a name for zeros."""
        made = self.made(node)
        return bool(made) and all(called(value) in ("torch.zeros", "torch.empty") for value in made)


def _as_key(left: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr]:
    """(query, key before it is transposed); a factor of the key becomes one of the query."""
    turned = transposed(right)
    if turned is not None:
        return left, turned
    match right:
        case ast.BinOp(left=first, op=ast.Mult() | ast.Div() as operator, right=second):
            turned = transposed(first)
            if turned is not None:
                return ast.BinOp(left, operator, second), turned
            turned = transposed(second)
            if turned is not None and isinstance(operator, ast.Mult):
                return ast.BinOp(left, operator, first), turned
    return left, parsed(f"({ast.unparse(right)}).transpose(-1, -2)")


def _with_heads(node: ast.Call, found: Value) -> Value:
    """`found` with the number of heads, which `scores.view(batch, heads, queries, keys)` shows."""
    axes = node.args
    if len(axes) == 1 and isinstance(axes[0], ast.Tuple):
        axes = axes[0].elts
    if method_of(node) not in ("view", "reshape") or len(axes) != 4:
        return found
    if isinstance(found, Scores) and found.heads is None:
        return replace(found, heads=axes[1])
    if isinstance(found, Probabilities) and found.scores.heads is None:
        return replace(found, scores=replace(found.scores, heads=axes[1]))
    return found
