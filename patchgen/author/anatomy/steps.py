"""The steps of an attention that is written out, known by their shapes: code with holes.

The converter's own matcher compares the shapes.  What is written is verified later, so that no
shape has to prove anything.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from patchgen.author.anatomy.code import (
    called,
    constant,
    dotted,
    last,
    method_of,
    names,
    parsed,
    shortened,
    stored,
    walk,
)
from patchgen.author.anatomy.module import Class
from patchgen.compiler.edits.pattern import fit_expression


class Unplaced(Exception):
    """A statement that does not belong in an attention: `node`, and why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


@dataclass(frozen=True)
class Factor:
    """A multiplication (`*`) or division (`/`) of the scores, under `condition` if given."""

    operator: str
    value: ast.expr
    condition: ast.expr | None = None


@dataclass(frozen=True)
class Term:
    """A value that is added to the scores (`add`), or a mask of the hidden ones (`hide`).

    `factors` multiply an added value: the scores were scaled after the addition.
    """

    kind: str
    value: ast.expr
    condition: ast.expr | None = None
    factors: tuple[Factor, ...] = ()


@dataclass(frozen=True)
class Scores:
    """The product of `query` and `key` (.., keys, size) with its factors and terms.

    `statement` is the number of the statement that computes the product.
    """

    statement: int
    query: ast.expr
    key: ast.expr
    factors: tuple[Factor, ...] = ()
    terms: tuple[Term, ...] = ()
    heads: ast.expr | None = None


@dataclass(frozen=True)
class Probabilities:
    """Softmax of `scores` over the keys; `dropout` is its rate, zero in eval mode."""

    scores: Scores
    dropout: ast.expr | None = None


@dataclass(frozen=True)
class Context:
    """Probabilities times `value` (.., keys, size); `node` is the product in the code."""

    probabilities: Probabilities
    value: ast.expr
    node: ast.expr


Value = Scores | Probabilities | Context

# The shapes of each step; `...` is any arguments, every name but torch's own is a hole.
SHAPES = {
    "product": """
        torch.matmul(left, right)
        torch.bmm(left, right)
        left @ right
    """,
    "baddbmm": """
        added.baddbmm(batch1=left, batch2=right, beta=beta, alpha=alpha)
        torch.baddbmm(added, left, right, beta=beta, alpha=alpha)
    """,
    "softmax": """
        nn.functional.softmax(x, ..., dim=-1)
        torch.nn.functional.softmax(x, ..., dim=-1)
        F.softmax(x, ..., dim=-1)
        torch.softmax(x, ..., dim=-1)
        nn.Softmax(dim=-1)(x)
        x.softmax(..., dim=-1)
        x.softmax(-1, ...)
    """,
    "dropout": """
        nn.functional.dropout(x, p=rate, training=self.training)
        nn.functional.dropout(x, rate, training=self.training)
        torch.nn.functional.dropout(x, p=rate, training=self.training)
        F.dropout(x, p=rate, training=self.training)
    """,
    "hidden": """
        x.masked_fill(mask, number)
        x.masked_fill_(mask, number)
        torch.masked_fill(x, mask, number)
    """,
    # The scores of keys that are hidden may be minus infinity, or the least number.
    "same": """
        torch.max(x, number)
        x.view(...)
        x.reshape(...)
        x.unsqueeze(...)
        x.squeeze(...)
        x.contiguous()
        x.flatten(...)
        x.to(...)
        x.type_as(...)
        x.type(...)
        x.float()
    """,
    "turned": """
        x.transpose(-1, -2)
        x.transpose(-2, -1)
        x.transpose(2, 3)
        x.transpose(3, 2)
        x.transpose(1, 2)
        x.transpose(2, 1)
        torch.transpose(x, -1, -2)
        torch.transpose(x, -2, -1)
        x.permute(0, 1, 3, 2)
        x.permute(0, 2, 1)
        x.mT
    """,
}
TORCH = {"torch", "nn", "F", "self"}
_PARSED = {
    kind: tuple(
        (shape, names(shape) - TORCH)
        for shape in map(parsed, map(str.strip, shapes.strip().splitlines()))
    )
    for kind, shapes in SHAPES.items()
}


@dataclass
class Walk:
    """One walk over a suite of `method`: the values of names, and what was found.

    Each finding has the index of its statement.
    """

    owner: Class
    method: ast.FunctionDef
    env: dict[str, Value] = field(default_factory=dict)
    kept: list[tuple[int, ast.stmt]] = field(default_factory=list)
    contexts: list[tuple[Context, int]] = field(default_factory=list)
    uses: list[tuple[int, Unplaced]] = field(default_factory=list)
    index: int = 0
    condition: ast.expr | None = None
    otherwise: bool = False  # in the second branch of a condition

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """The part of `node` that does not compute an attention."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self._bind(name, value, node)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return self._bind(name, value, node)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if name in self.env:
                read = ast.copy_location(ast.Name(name, ast.Load()), node)
                return self._bind(name, ast.copy_location(ast.BinOp(read, op, value), node), node)
            case ast.If() if _only_checks(node):
                return []
            case ast.If() if (names(node) | stored(node)) & self.env.keys():
                return self._branch(node)
            case ast.Raise() | ast.Assert():
                return []
            case ast.Expr(value=ast.Call() as call) if isinstance(self.value(call), Scores):
                self.use(node, f"the scores go into `{shortened(node)}`")
            case _:
                pass
        if not isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child)
        elif names(node) & self.env.keys():
            self.use(node, f"the scores go into `{shortened(node)}`")
        return self._rest(node)

    def _bind(self, name: str, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        result = self.value(value)
        if isinstance(result, Scores | Probabilities):
            self.env[name] = result
            return []
        if constant(value) is None and isinstance(value, ast.Constant) and name in self.env:
            return []  # in one branch there are no weights
        return self._rest(node)

    def _rest(self, node: ast.stmt) -> list[ast.stmt]:
        for name in stored(node):
            self.env.pop(name, None)
        return [node]

    def _branch(self, node: ast.If) -> list[ast.stmt]:
        """Both branches, one after the other: a term or factor has the condition of its branch."""
        self.value(node.test)
        outer = self.condition
        negated = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        kept = []
        for suite, test in ((node.body, node.test), (node.orelse, negated)):
            self.condition = test if outer is None else ast.BoolOp(ast.And(), [outer, test])
            self.otherwise = suite is node.orelse
            kept.append([rest for statement in suite for rest in self.statement(statement)])
        self.condition, self.otherwise = outer, False
        body, orelse = kept
        if not body and not orelse:
            return []
        return [ast.copy_location(ast.If(node.test, body or [ast.Pass()], orelse), node)]

    def use(self, node: ast.AST, why: str) -> None:
        """Record that scores or weights are used in a way that no attention uses them."""
        self.uses.append((self.index, Unplaced(node, why)))

    def value(self, node: ast.expr) -> Value | None:
        """The value of `node`; None if it is not followed."""
        match node:
            case ast.Name(id=name):
                return self.env.get(name)
            case ast.Attribute(value=ast.Name(), attr="dtype" | "device" | "shape" | "ndim"):
                return None
            case ast.Tuple() | ast.List() | ast.Dict() | ast.Starred():
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)  # weights may be collected
                return None
        if (inner := softmaxed(node)) is not None:
            return self._softmax(node, self.value(inner))
        if (dropped := self._dropped(node)) is not None:
            return self._dropout(self.value(dropped[0]), dropped[1])
        for kind in ("product", "baddbmm", "hidden", "same"):
            holes = _holes(kind, node)
            if holes is not None:
                return self._step(kind, node, holes)
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node)
        if method_of(node) == "append":
            return None
        for child in ast.iter_child_nodes(node):
            child = child.value if isinstance(child, ast.keyword) else child
            if isinstance(child, ast.expr) and isinstance(
                self.value(child), Scores | Probabilities
            ):
                self.use(node, f"the scores go into `{shortened(node)}`")
        return None

    def _step(self, kind: str, node: ast.expr, holes: Mapping[str, ast.expr]) -> Value | None:
        if kind == "product":
            return self._product(node, holes["left"], holes["right"])
        if kind == "baddbmm":
            return self._baddbmm(holes)
        found = self.value(holes["x"])
        if found is None or isinstance(found, Context):
            return None
        if kind == "same":
            return _with_heads(node, found)
        if isinstance(found, Probabilities):
            self.use(node, "weights are changed after softmax")
            return None
        number = constant(holes["number"])
        if isinstance(number, int | float) and number > -1e4:
            self.use(node, f"scores are set to `{number}`")
            return None
        return self._plus(found, "hide", holes["mask"])

    def _product(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Value | None:
        weights = self.value(left)
        if isinstance(weights, Probabilities):
            context = Context(weights, right, node)
            self.contexts.append((context, self.index))
            return context
        if weights is not None or self.value(right) is not None:
            self.use(node, f"`{shortened(node)}` is no product of weights and values")
            return None
        return self._scores(left, right)

    def _scores(self, left: ast.expr, right: ast.expr) -> Scores:
        """A factor of the key becomes one of the query."""
        match right:
            case ast.BinOp(left=key, op=ast.Mult() | ast.Div() as operator, right=factor):
                if (turned := _holes("turned", key)) is not None:
                    return Scores(self.index, ast.BinOp(left, operator, factor), turned["x"])
        turned = _holes("turned", right)
        key = turned["x"] if turned else parsed(f"({ast.unparse(right)}).transpose(-1, -2)")
        return Scores(self.index, left, key)

    def _baddbmm(self, holes: Mapping[str, ast.expr]) -> Scores:
        """added * beta + (left @ right) * alpha."""
        scores = self._scores(holes["left"], holes["right"])
        scores = replace(scores, factors=(Factor("*", holes["alpha"]),))
        made = [last(called(value)) for value in self._made(holes["added"])]
        if constant(holes["beta"]) == 0 or (made and set(made) <= {"zeros", "empty"}):
            return scores
        is_one = constant(holes["beta"]) == 1
        scale = () if is_one else (Factor("*", holes["beta"]),)
        return replace(scores, terms=(Term("add", holes["added"], None, scale),))

    def _made(self, node: ast.expr) -> list[ast.expr]:
        """Every value that the method assigns to the name `node`."""
        assignments = walk(self.method.body, ast.Assign)
        return [one.value for one in assignments if stored(one) == {dotted(node)}]

    def _softmax(self, node: ast.expr, found: Value | None) -> Value | None:
        if isinstance(found, Scores):
            return Probabilities(found)
        if isinstance(found, Probabilities) and self.otherwise:
            return found  # each branch takes it, in another dtype
        if found is not None:
            self.use(node, "softmax is taken twice")
        return None

    def _dropped(self, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
        """(input, rate, which is zero outside training) of a dropout; None if `node` is none."""
        if (holes := _holes("dropout", node)) is not None:
            return holes["x"], parsed(f"{ast.unparse(holes['rate'])} if self.training else 0.0")
        match node:
            case ast.Call(args=[x]) if called(node).startswith("self."):
                kinds = set(self.owner.makes(last(called(node))))
                # A module that may also be an Identity has no rate to read.
                if kinds and kinds <= {"Dropout", "StableDropout"}:
                    return x, parsed(f"{called(node)}.p if self.training else 0.0")
        return None

    def _dropout(self, found: Value | None, rate: ast.expr) -> Value | None:
        if not isinstance(found, Probabilities):
            return None
        if self.condition is not None and not self.otherwise:
            rate = ast.IfExp(self.condition, rate, ast.Constant(0.0))
        return replace(found, dropout=found.dropout or rate)

    def _arithmetic(self, node: ast.BinOp) -> Value | None:
        left, right = self.value(node.left), self.value(node.right)
        scores, other = (left, node.right) if left is not None else (right, node.left)
        if scores is None:
            return None
        is_left = other is node.right
        if isinstance(scores, Scores):
            match node.op:
                case ast.Add():
                    return self._plus(scores, "add", other)
                case ast.Mult():
                    return self._scaled(node, scores, "*", other)
                case ast.Div() if is_left:
                    return self._scaled(node, scores, "/", other)
        self.use(node, f"the scores go into `{shortened(node)}`")
        return None

    def _plus(self, scores: Scores, kind: str, value: ast.expr) -> Scores:
        term = Term(kind, value, self.condition)
        return replace(scores, terms=(*scores.terms, term))

    def _scaled(
        self, node: ast.expr, scores: Scores, operator: str, value: ast.expr
    ) -> Scores | None:
        if not _is_number(value, self.owner):
            parameters = [
                attribute
                for made in [value, *self._made(value)]
                for attribute in walk(made, ast.Attribute)
                if "Parameter" in self.owner.makes(attribute.attr)
            ]
            if scores.terms or not (parameters or isinstance(value, ast.Call)):
                what = f"`{shortened(value)}`, which scales the scores, may be more than one number"
                self.use(node, what)
                return None
            # One factor for each head, for example: the queries can be scaled instead.
            kind = ast.Mult() if operator == "*" else ast.Div()
            return replace(scores, query=ast.BinOp(scores.query, kind, value))
        factor = Factor(operator, value, self.condition)
        # A hidden score stays hidden at any scale.
        terms = tuple(
            term if term.kind == "hide" else replace(term, factors=(*term.factors, factor))
            for term in scores.terms
        )
        return replace(scores, factors=(*scores.factors, factor), terms=terms)


def _holes(kind: str, node: ast.expr) -> dict[str, ast.expr] | None:
    for shape, holes in _PARSED[kind]:
        if (found := fit_expression(shape, node, holes)) is not None:
            return found
    return None


def softmaxed(node: ast.expr) -> ast.expr | None:
    """The input of a softmax over the last axis; None if `node` is none."""
    return (_holes("softmax", node) or {}).get("x")


def _only_checks(node: ast.If) -> bool:
    """Whether it only checks its input, which SDPA does too."""
    return not node.orelse and all(isinstance(one, ast.Raise | ast.Assert) for one in node.body)


def _is_number(node: ast.expr, owner: Class) -> bool:
    """Whether `node` looks like a number: a literal, arithmetic of numbers, an attribute."""
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp(operand=operand):
            return _is_number(operand, owner)
        case ast.BinOp(left=left, right=right):
            return _is_number(left, owner) and _is_number(right, owner)
        case ast.Call():
            name = called(node)
            return name.startswith(("math.", "np.")) or name in (
                "float",
                "int",
                "len",
                "torch_float",
            )
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return "Parameter" not in owner.makes(name)
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case _:
            return dotted(node).startswith(("self.config.", "config."))


def _with_heads(node: ast.expr, found: Value) -> Value:
    """`found` with the number of heads, which `scores.view(batch, heads, queries, keys)` shows."""
    axes = node.args if isinstance(node, ast.Call) else []
    if len(axes) == 1 and isinstance(axes[0], ast.Tuple):
        axes = axes[0].elts
    if method_of(node) not in ("view", "reshape") or len(axes) != 4:
        return found
    if isinstance(found, Scores) and found.heads is None:
        return replace(found, heads=axes[1])
    if isinstance(found, Probabilities) and found.scores.heads is None:
        return replace(found, scores=replace(found.scores, heads=axes[1]))
    return found
