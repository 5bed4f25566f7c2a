"""The statements of one suite, evaluated in their order as far as they make scores, probabilities and contexts.

Everything else is opaque: an expression that SDPA will be given as it stands.  Where something reads a tracked value
and is none of the known operations, that use is recorded; whoever finds it inside a chain refuses the chain.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field, replace

from patchgen.anatomy.code import (
    CASTS,
    VIEWS,
    argument,
    called,
    constant,
    dotted,
    method_of,
    names,
    parsed,
    receiver,
    stored,
)
from patchgen.anatomy.module import Class
from patchgen.anatomy.operations import (
    dropout_of,
    is_minimum,
    is_per_head,
    is_scalar,
    product,
    softmax_of,
    transposed,
)
from patchgen.anatomy.scores import Context, Factor, Gone, Probabilities, Scores, Term, Unplaced, Value

# Reading these of the scores is no use of their values.
_SHAPES = frozenset({"dtype", "device", "shape", "size", "dim", "ndim"})


@dataclass
class Evaluation:
    """One walk over a suite of `method`; the lists are what it found, each with the index of its statement."""

    owner: Class
    method: ast.FunctionDef
    opaque: frozenset[str] = frozenset()
    env: dict[str, Value] = field(default_factory=dict)
    culprits: set[str] = field(default_factory=set)
    kept: list[tuple[int, ast.stmt]] = field(default_factory=list)
    contexts: list[tuple[Context, int]] = field(default_factory=list)
    uses: list[tuple[int, ast.AST, str]] = field(default_factory=list)
    failures: list[Unplaced] = field(default_factory=list)
    recorded: list[tuple[ast.expr, int]] = field(default_factory=list)
    numbers: frozenset[str] = frozenset()
    index: int = 0
    softmaxes: int = 0
    condition: ast.expr | None = None

    def run(self, suite: list[ast.stmt]) -> None:
        """Evaluate every statement."""
        for self.index, statement in enumerate(suite):
            self.kept += [(self.index, node) for node in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """The part of `node` that is none of attention's."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self._bind(name, self.value(value), node)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return self._bind(name, self.value(value), node)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if name in self.env:
                whole = ast.copy_location(
                    ast.BinOp(ast.copy_location(ast.Name(name, ast.Load()), node), op, value), node
                )
                return self._bind(name, self.value(whole), node)
            case ast.Expr(value=ast.Call() as call) if method_of(call) == "masked_fill_":
                target = dotted(receiver(call))
                if target in self.env:
                    return self._bind(target, self.value(call), node)
            case ast.If() if _only_raises(node.body) and not node.orelse:
                return []
            case ast.If() if self._touches(node):
                return self._branch(node)
            case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try():
                for name in stored(node):
                    self.env.pop(name, None)
            case ast.Raise() | ast.Assert():
                return []
            case _:
                pass
        self._look_at(node)
        for name in stored(node):
            self.env.pop(name, None)
        return [self._without_scores(node)]

    def _bind(self, name: str, value: Value | None, node: ast.stmt) -> list[ast.stmt]:
        if value is not None and name not in self.opaque:
            self.env[name] = value
            return []
        self.env.pop(name, None)
        return [self._without_scores(node)]

    def _touches(self, node: ast.AST) -> bool:
        return bool((names(node) | stored(node)) & self.env.keys())

    def _look_at(self, node: ast.AST) -> None:
        """Evaluate the expressions directly inside a statement, for the contexts and uses in them."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.keyword | ast.stmt):
                self._look_at(child)

    def _branch(self, node: ast.If) -> list[ast.stmt]:
        """Both branches, each from here; what they make of the scores is put together again."""
        before, outer = dict(self.env), self.condition
        self._look_at(ast.Expr(node.test))
        self.condition = _both(outer, node.test)
        body = [kept for one in node.body for kept in self.statement(one)]
        after, self.env = self.env, dict(before)
        self.condition = _both(outer, ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test))
        orelse = [kept for one in node.orelse for kept in self.statement(one)]
        self.condition = outer
        # A branch that ends the method leaves nothing behind.
        if node.body and isinstance(node.body[-1], ast.Return | ast.Raise):
            after = self.env
        self.env = {
            name: value
            for name in (after | self.env)
            if (value := self._joined(before.get(name), after.get(name), self.env.get(name), node)) is not None
        }
        if not body and not orelse:
            return []
        rest = ast.If(node.test, body or [ast.Pass()], orelse)
        return [ast.copy_location(rest, node)]

    def _joined(self, before: Value | None, one: Value | None, other: Value | None, node: ast.If) -> Value | None:
        if _text(one) == _text(other):
            return one
        if isinstance(one, Scores) and isinstance(other, Scores) and isinstance(before, Scores):
            if one.statement == other.statement == before.statement:
                return replace(
                    before,
                    factors=(*one.factors, *other.factors[len(before.factors) :]),
                    terms=(*one.terms, *other.terms[len(before.terms) :]),
                    heads=one.heads or other.heads,
                )
        if isinstance(one, Probabilities) and isinstance(other, Probabilities):
            # Only one of the branches may have said how many heads there are.
            heads = one.scores.heads or other.scores.heads
            one = replace(one, scores=replace(one.scores, heads=heads))
            other = replace(other, scores=replace(other.scores, heads=heads))
            if _text(one) == _text(other):
                return one
        if (
            isinstance(one, Probabilities)
            and isinstance(other, Probabilities)
            and _text(one.scores) == _text(other.scores)
        ):
            self.uses.append((self.index, node, "dropout of the weights depends on a condition"))
            return one
        present = [value for value in (one, other) if value is not None and not isinstance(value, Gone)]
        if len(present) == 1 and isinstance(present[0], Probabilities | Scores):
            return present[0]
        if present:
            self.uses.append((self.index, node, "the branches of a condition make different scores"))
        return None

    def value(self, node: ast.expr) -> Value | None:
        """What `node` is; None for an opaque value."""
        match node:
            case ast.Name(id=name):
                return self.env.get(name)
            case ast.Constant(value=None):
                return Gone()
            case ast.BinOp() if not isinstance(node.op, ast.MatMult):
                return self._arithmetic(node)
            case ast.Call() | ast.BinOp():
                return self._operation(node)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in self.env and attr in _SHAPES:
                return None
            case ast.IfExp(body=body, orelse=orelse):
                return self._conditional(node, body, orelse)
            case ast.Tuple() | ast.List() | ast.Dict() | ast.Starred():
                # Collecting weights is no use of them.
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)
                return None
            case _:
                self._others(node)
                return None

    def _conditional(self, node: ast.IfExp, body: ast.expr, orelse: ast.expr) -> Value | None:
        one, other = self.value(body), self.value(orelse)
        if isinstance(one, Probabilities | Scores) and isinstance(other, Gone):
            return one
        if isinstance(other, Probabilities | Scores) and isinstance(one, Gone):
            return other
        if _text(one) == _text(other):
            return one
        self._others(node)
        return None

    def _others(self, node: ast.AST) -> None:
        """`node` is no operation of attention's: what it reads of scores is a use of them."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword):
                child = child.value
            if not isinstance(child, ast.expr):
                continue
            found = self.value(child)
            if isinstance(found, Scores | Probabilities):
                self.culprits |= names(child) & self.env.keys()
                what = "scores" if isinstance(found, Scores) else "weights"
                self.uses.append((self.index, node, f"the {what} go into `{_short(node)}`"))

    def _operation(self, node: ast.Call | ast.BinOp) -> Value | None:
        if (factors := product(node, self.owner)) is not None:
            return self._product(node, *factors)
        assert isinstance(node, ast.Call)
        if (inner := softmax_of(node, self.owner)) is not None:
            return self._softmax(node, self.value(inner))
        if (dropped := dropout_of(node, self.owner)) is not None:
            return self._dropout(node, self.value(dropped[0]), dropped[1])
        if called(node) == "torch.baddbmm" or method_of(node) == "baddbmm":
            return self._baddbmm(node)
        if (filled := self._filled(node)) is not None:
            return filled
        if (
            method_of(node) in VIEWS | CASTS | {"size", "dim", "amax"}
            and (found := self.value(receiver(node))) is not None
        ):
            if method_of(node) in ("size", "dim", "amax"):
                return None
            return _with_heads(node, found)
        if method_of(node) == "append" and len(node.args) == 1:
            self.value(node.args[0])
            return None
        if method_of(node) in ("expand_as", "reshape_as"):
            return None
        own = self.owner.method(called(node)[5:]) if called(node).startswith("self.") else None
        if own is not None:
            return self._inside(node, own)
        self._others(node)
        return None

    def _inside(self, node: ast.Call, method: ast.FunctionDef) -> Value | None:
        """The result of a method of `self` that is given scores, as if its statements stood here."""
        found = self.value(node.args[0]) if node.args else None
        parameters = [arg.arg for arg in method.args.args[1:]]
        if not isinstance(found, Scores) or not method.body or not isinstance(method.body[-1], ast.Return):
            self._others(node)
            return None
        numbers = {arg.arg for arg, value in _defaults(method) if isinstance(constant(value), int | float)}
        inner = Evaluation(
            self.owner, method, env={parameters[0]: found}, index=self.index, numbers=frozenset(numbers)
        )
        for statement in method.body[:-1]:
            inner.statement(statement)
        result = method.body[-1].value
        value = inner.value(result) if result is not None else None
        if inner.uses or not isinstance(value, Probabilities) or not _changes_nothing(value.scores, found):
            self._others(node)
            return None
        self.softmaxes += 1
        return replace(value, scores=found)

    def _product(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Value | None:
        one, other = self.value(left), self.value(right)
        if isinstance(one, Probabilities) and other is None:
            context = Context(one, self._opaque(right), node)
            self.contexts.append((context, self.index))
            return context
        if one is None and other is None:
            query, key = _as_key(self._opaque(left), self._opaque(right), self.owner)
            self.recorded += [(query, self.index), (key, self.index)]
            return Scores(self.index, query, key)
        if isinstance(one, Scores | Probabilities) or isinstance(other, Scores | Probabilities):
            self.uses.append((self.index, node, f"`{_short(node)}` is no product of weights and values"))
        return None

    def _softmax(self, node: ast.expr, found: Value | None) -> Value | None:
        if isinstance(found, Scores):
            self.softmaxes += 1
            return Probabilities(found)
        if isinstance(found, Probabilities):
            self.uses.append((self.index, node, "softmax is taken twice"))
        elif isinstance(node, ast.Call):
            softmaxed = softmax_of(node, self.owner)
            tainted = [why for _, inner, why in self.uses if softmaxed is not None and why]
            if tainted:
                self.failures.append(Unplaced(node, tainted[-1]))
        return None

    def _dropout(self, node: ast.expr, found: Value | None, rate: ast.expr) -> Value | None:
        if isinstance(found, Probabilities):
            if found.dropout is not None:
                self.uses.append((self.index, node, "there are two dropouts of the weights"))
            if self.condition is not None and not _is_presence(self.condition, rate):
                self.uses.append((self.index, node, "dropout of the weights depends on a condition"))
            return replace(found, dropout=rate)
        if isinstance(found, Scores):
            self.uses.append((self.index, node, "there is a dropout of the scores"))
        return None

    def _baddbmm(self, node: ast.Call) -> Value | None:
        """input * beta + (batch1 @ batch2) * alpha."""
        own = called(node) != "torch.baddbmm"
        added = receiver(node) if own else argument(node, 0, "input")
        shift = 0 if own else 1
        left, right = argument(node, shift, "batch1"), argument(node, shift + 1, "batch2")
        if added is None or left is None or right is None:
            return None
        query, key = _as_key(self._opaque(left), self._opaque(right), self.owner)
        self.recorded += [(query, self.index), (key, self.index)]
        alpha, beta = argument(node, 9, "alpha"), argument(node, 9, "beta")
        factors = (Factor("*", alpha),) if alpha is not None else ()
        terms: tuple[Term, ...] = ()
        if not self._is_empty(added) and constant(beta) != 0:
            factor = (Factor("*", beta),) if beta is not None and constant(beta) not in (1, 1.0) else ()
            self.recorded.append((added, self.index))
            terms = (Term("add", added, None, factor),)
        return Scores(self.index, query, key, factors, terms)

    def _is_empty(self, node: ast.expr) -> bool:
        """Whether `node` is a name for zeros."""
        made = [
            statement.value
            for statement in ast.walk(self.method)
            if isinstance(statement, ast.Assign) and isinstance(node, ast.Name) and stored(statement) == {node.id}
        ]
        return bool(made) and all(called(value) in ("torch.zeros", "torch.empty") for value in made)

    def _filled(self, node: ast.Call) -> Value | None:
        """`masked_fill`, `where` and clamps that hide scores."""
        own = method_of(node) in ("masked_fill", "masked_fill_") and called(node) != "torch.masked_fill"
        if own or called(node) == "torch.masked_fill":
            target = receiver(node) if own else node.args[0]
            hidden, number = node.args[-2], node.args[-1]
        elif called(node) == "torch.where" and len(node.args) == 3:
            hidden, target, number = _negated(node.args[0]), node.args[1], node.args[2]
        elif called(node) == "torch.max" and len(node.args) == 2 and "finfo" in ast.unparse(node.args[1]):
            return self.value(node.args[0])  # No score is below its dtype's minimum, but for minus infinity.
        else:
            return None
        found = self.value(target)
        if not isinstance(found, Scores):
            if isinstance(found, Probabilities):
                self.uses.append((self.index, node, "weights are changed after softmax"))
            return None
        if not self._hides(number):
            self.uses.append((self.index, node, f"scores are set to `{_short(number)}`"))
            return None
        return self._with(found, Term("hide", self._opaque(hidden), self.condition))

    def _hides(self, number: ast.expr) -> bool:
        if is_minimum(number):
            return True
        if isinstance(number, ast.Call) and number.args:
            return any(is_minimum(arg) for arg in number.args)
        made = [
            statement.value
            for statement in ast.walk(self.method)
            if isinstance(statement, ast.Assign) and isinstance(number, ast.Name) and stored(statement) == {number.id}
        ]
        return bool(made) and all("finfo" in ast.unparse(value) and ".min" in ast.unparse(value) for value in made)

    def _arithmetic(self, node: ast.BinOp) -> Value | None:
        left, right = self.value(node.left), self.value(node.right)
        if left is None and right is None:
            return None
        scores, other = (left, node.right) if isinstance(left, Scores) else (right, node.left)
        both = isinstance(left, Scores | Probabilities) and isinstance(right, Scores | Probabilities)
        if not isinstance(scores, Scores) or both:
            if isinstance(left, Scores | Probabilities) or isinstance(right, Scores | Probabilities):
                what = "weights are changed after softmax" if not both else "two products are added"
                self.culprits |= names(node.right) & self.env.keys()
                self.uses.append((self.index, node, what))
            return None
        if isinstance(node.op, ast.Sub) and scores is left and self._is_row_maximum(node.right):
            return scores  # Softmax does not see what is the same for all keys of a query.
        if isinstance(node.op, ast.Add):
            return self._with(scores, Term("add", self._opaque(other), self.condition))
        if isinstance(node.op, ast.Mult) or (isinstance(node.op, ast.Div) and scores is left):
            return self._scaled(node, scores, "*" if isinstance(node.op, ast.Mult) else "/", other)
        self.uses.append((self.index, node, f"the scores go into `{_short(node)}`"))
        return None

    def _is_row_maximum(self, node: ast.expr) -> bool:
        """Whether `node` holds one number for each query: the largest of its scores."""
        if isinstance(node, ast.Name):
            made = [
                one.value for one in ast.walk(self.method) if isinstance(one, ast.Assign) and stored(one) == {node.id}
            ]
            return len(made) == 1 and self._is_row_maximum(made[0])
        text = ast.unparse(node)
        return text.endswith((".amax(dim=-1).unsqueeze(-1)", ".amax(dim=-1, keepdim=True)"))

    def _with(self, scores: Scores, term: Term) -> Scores:
        self.recorded.append((term.value, self.index))
        return replace(scores, terms=(*scores.terms, term))

    def _scaled(self, node: ast.expr, scores: Scores, operator: str, other: ast.expr) -> Scores | None:
        if not is_scalar(other, self.owner) and operator == "*" and not scores.terms:
            if is_per_head(other, self.method, self.owner):
                query = ast.BinOp(scores.query, ast.Mult(), other)
                self.recorded.append((query, self.index))
                return replace(scores, query=query)
        if not is_scalar(other, self.owner) and dotted(other) not in self.numbers:
            self.uses.append(
                (self.index, node, f"`{_short(other)}`, which scales the scores, may be more than one number")
            )
            return None
        factor = Factor(operator, other, self.condition)
        terms = tuple(
            term if term.kind == "hide" else replace(term, factors=(*term.factors, factor)) for term in scores.terms
        )
        return replace(scores, factors=(*scores.factors, factor), terms=terms)

    def _opaque(self, node: ast.expr) -> ast.expr:
        """`node`, its reads of shapes and dtypes of scores in other words."""
        if not names(node) & self.env.keys():
            return node
        changed = _Shapes(self).visit(copy.deepcopy(node))
        assert isinstance(changed, ast.expr)
        return changed

    def _without_scores(self, node: ast.stmt) -> ast.stmt:
        if not names(node) & self.env.keys():
            return node
        changed = _Shapes(self).visit(copy.deepcopy(node))
        assert isinstance(changed, ast.stmt)
        return changed


class _Shapes(ast.NodeTransformer):
    """`scores.dtype` is the query's dtype, `scores.size(-1)` the number of keys; `expand_as(scores)` is not needed."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    def _scores(self, node: ast.AST) -> Scores | None:
        found = self.evaluation.env.get(node.id) if isinstance(node, ast.Name) else None
        return found.scores if isinstance(found, Probabilities) else found if isinstance(found, Scores) else None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if method_of(node) == "expand_as" and len(node.args) == 1 and self._scores(node.args[0]) is not None:
            return self.visit(receiver(node)) if isinstance(receiver(node), ast.AST) else node
        if method_of(node) == "reshape_as" and len(node.args) == 1 and (scores := self._scores(node.args[0])):
            query, key = ast.unparse(scores.query), ast.unparse(scores.key)
            shape = [ast.Starred(parsed(f"({query}).shape[:-1]")), parsed(f"({key}).shape[-2]")]
            return ast.Call(ast.Attribute(receiver(node), "reshape", ast.Load()), shape, [])
        if method_of(node) == "size" and (scores := self._scores(receiver(node))) is not None:
            axis = constant(node.args[0]) if node.args else None
            source = scores.key if axis in (-1, 3) else scores.query if axis in (-2, 2) else None
            if source is not None:
                return parsed(f"({ast.unparse(source)}).shape[-2]")
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        scores = self._scores(node.value)
        if scores is not None and node.attr in ("dtype", "device"):
            return parsed(f"{_first_name(scores.query)}.{node.attr}")
        return self.generic_visit(node)


def _first_name(node: ast.expr) -> str:
    return next(
        (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id not in ("self", "torch", "nn")), ""
    )


def _as_key(left: ast.expr, right: ast.expr, owner: Class) -> tuple[ast.expr, ast.expr]:
    """(query, key with its axes as they are before the transposition); factors of the key go to the query."""
    turned = transposed(right)
    if turned is not None:
        return left, turned
    if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Mult | ast.Div):
        for inner, factor in ((right.left, right.right), (right.right, right.left)):
            if (turned := transposed(inner)) is not None and (isinstance(right.op, ast.Mult) or inner is right.left):
                return ast.BinOp(left, right.op, factor), turned
    return left, parsed(f"({ast.unparse(right)}).transpose(-1, -2)")


def _with_heads(node: ast.Call, found: Value) -> Value:
    """`scores.view(batch, heads, queries, keys)` says how many heads a folded batch holds."""
    axes = node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple) else node.args
    if method_of(node) not in ("view", "reshape") or len(axes) != 4:
        return found
    if isinstance(found, Scores) and found.heads is None:
        return replace(found, heads=axes[1])
    if isinstance(found, Probabilities) and found.scores.heads is None:
        return replace(found, scores=replace(found.scores, heads=axes[1]))
    return found


def _changes_nothing(after: Scores, before: Scores) -> bool:
    """Whether scores were multiplied and divided by the same numbers only."""
    factors = after.factors[len(before.factors) :]
    by = {operator: sorted(_text(f.value) for f in factors if f.operator == operator) for operator in "*/"}
    return by["*"] == by["/"] and len(after.terms) == len(before.terms)


def _defaults(method: ast.FunctionDef) -> list[tuple[ast.arg, ast.expr]]:
    return list(zip(method.args.args[::-1], method.args.defaults[::-1], strict=False))


def _only_raises(body: list[ast.stmt]) -> bool:
    """A check: the statements that it guards are checked by SDPA in its own way."""
    return all(isinstance(node, ast.Raise | ast.Assert) for node in body)


def _negated(node: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Invert(), node)


def _both(outer: ast.expr | None, test: ast.expr) -> ast.expr:
    return test if outer is None else ast.BoolOp(ast.And(), [outer, test])


def _is_presence(condition: ast.expr, rate: ast.expr) -> bool:
    """`if self.dropout is not None:` before `self.dropout(p)`."""
    match condition:
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return ast.unparse(left) in ast.unparse(rate)
        case _:
            return False


def _text(value: object) -> str:
    """A value as text that is the same for the same code."""
    match value:
        case ast.AST():
            return ast.dump(value)
        case tuple():
            return f"({', '.join(_text(one) for one in value)})"
        case Scores() | Probabilities() | Factor() | Term() | Context():
            fields = (getattr(value, name) for name in value.__dataclass_fields__ if name != "node")
            return f"{type(value).__name__}{_text(tuple(fields))}"
        case _:
            return repr(value)


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
