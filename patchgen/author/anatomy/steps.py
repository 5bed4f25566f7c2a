"""Attentions that are written out in the methods of a class: scores, softmax, dropout, product.

    scores = (query @ key^T) * factors + terms
    probabilities = dropout(softmax(scores))
    context = probabilities @ value

Takes a class; returns a `Chain` for each softmax between two matrix products, and a reason for each
softmax that cannot be replaced.  Each step is known by its shape, code with holes, which the
converter's own matcher compares.  What is written is verified later: no shape has to prove it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from patchgen.author.anatomy.code import (
    called,
    constant,
    last,
    method_of,
    names,
    parsed,
    stored,
    walk,
)
from patchgen.author.anatomy.module import Class, Unfit
from patchgen.compiler.edits.pattern import fit_expression, suites
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted

CHECKS = (ast.Raise, ast.Assert)
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)
Suite = list[ast.stmt]
AS = ("expand_as", "reshape_as", "type_as")  # they read no more of an argument than its form


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

    `statement` is the number of the statement that computes the product.  Behind the softmax they
    are `weights`; `dropout` is its rate, zero in eval mode.
    """

    statement: int
    query: ast.expr
    key: ast.expr
    factors: tuple[Factor, ...] = ()
    terms: tuple[Term, ...] = ()
    heads: ast.expr | None = None
    weights: bool = False
    dropout: ast.expr | None = None


@dataclass(frozen=True, eq=False)
class Chain:
    """An attention that is written out in `method`; `product` is that of weights and `value`.

    Statements `first` to `last` of `suite` compute it and nothing else, except for `kept`, which
    SDPA needs too.  `weights` are names that become None, because SDPA gives no weights.
    """

    owner: Class
    method: ast.FunctionDef
    suite: Suite
    first: int
    last: int
    scores: Scores
    value: ast.expr
    product: ast.expr
    kept: Suite
    weights: list[str]


@dataclass(frozen=True, eq=False)
class Missed:
    """A softmax of `method` that cannot be replaced, why, and the node that shows it."""

    owner: Class
    method: ast.FunctionDef
    node: ast.AST
    why: str
    attention: bool


# The shapes of each step; `...` is any arguments, every name but torch's own is a hole.
SHAPES = {
    "product": ("torch.matmul(left, right)", "torch.bmm(left, right)", "left @ right"),
    "baddbmm": (
        "added.baddbmm(batch1=left, batch2=right, beta=beta, alpha=alpha)",
        "torch.baddbmm(added, left, right, beta=beta, alpha=alpha)",
    ),
    "softmax": (
        *(f"{n}.softmax(x, ..., dim=-1)" for n in ("F", "nn.functional", "torch.nn.functional")),
        "nn.Softmax(dim=-1)(x)",
        "x.softmax(..., dim=-1)",
    ),
    "dropout": ("nn.functional.dropout(x, p=rate, training=self.training)",),
    "hidden": ("x.masked_fill(mask, number)", "x.masked_fill_(mask, number)"),
    # The scores of keys that are hidden may be minus infinity, or the least number.
    "same": ("torch.max(x, number)", "x.view(...)", "x.to(...)", "x.type_as(...)", "x.float()"),
    "shown": ("torch.where(mask, x, number)",),
    "turned": tuple(f"x.transpose({axes})" for axes in ("-1, -2", "-2, -1", "2, 3", "1, 2")),
}
_PARSED = {
    kind: [(shape, names(shape) - {"torch", "nn", "F", "self"}) for shape in map(parsed, shapes)]
    for kind, shapes in SHAPES.items()
}


def chains(owner: Class) -> tuple[list[Chain], list[Missed]]:
    """The attentions in the own methods of `owner`, and the softmaxes that are left."""
    written_out: list[Chain] = []
    missed = []
    for method in owner.own.values():
        softmaxes = [c for c in walk(method.body, ast.Call) if _holes("softmax", c) is not None]
        if not softmaxes:
            continue
        covered: set[ast.AST] = set()
        failures: list[tuple[Unfit, set[ast.AST]]] = []
        for suite in suites(method):
            try:
                for chain in _in_suite(owner, method, suite):
                    written_out.append(chain)
                    covered.update(walk(suite[chain.first : chain.last + 1], ast.Call))
            except Unfit as unfit:
                failures.append((unfit, set(walk(suite, ast.AST))))
        for softmax in softmaxes:
            if softmax not in covered:
                what = "its softmax is not of a product of two values"
                whys = [unfit for unfit, inside in failures if softmax in inside]
                why = whys[0] if whys else Unfit(softmax, what)
                missed.append(Missed(owner, method, why.node or method, why.why, bool(whys)))
    return written_out, missed


def _in_suite(owner: Class, method: ast.FunctionDef, suite: Suite) -> list[Chain]:
    """The attentions whose product with the values is a statement of `suite`."""
    walked = Walk(owner, method)
    for index, statement in enumerate(suite):
        walked.index = index
        for rest in walked.statement(statement):
            walked.kept.append((index, rest))
    if walked.uses and not walked.contexts:
        softmaxes = [_holes("softmax", call) for call in walk(suite, ast.Call)]
        if any(holes is not None for holes in softmaxes):
            _, unfit = walked.uses[0]
            raise unfit
    return [_chain(walked, suite, context) for context in walked.contexts]


def _chain(walked: Walk, suite: Suite, context: Context) -> Chain:
    """The chain whose last statement has the product `context`.  Raises Unfit if it is none."""
    scores = context.scores
    first = scores.statement
    last = context.statement
    if isinstance(suite[last], BLOCKS):
        raise Unfit(context.product, "the product with the values stands under a condition")
    for index, why in walked.uses:
        if first <= index <= last:
            raise why
    bound = {*stored(suite[:first]), *parameters(walked.method)}
    states = names([scores.query, scores.key]) & bound
    kept: Suite = []
    for index, statement in walked.kept:
        if not first <= index < last:
            continue
        rebound = stored(statement) & states
        if index > first and rebound:
            what = f"`{min(rebound)}` is bound again before the scores are used"
            raise Unfit(statement, what)
        kept.append(statement)
    # The names that nothing binds any more, if the scores are not computed.
    lost = stored(suite[first:last]) - stored(kept)
    blank = f"blank_scores({ast.unparse(scores.query)}, {ast.unparse(scores.key)})"
    terms = [term.value for term in scores.terms]
    for reader in (*kept, scores.query, scores.key, context.value, *terms):
        if read := _values_read(reader) & lost:
            what = f"`{min(read)}`, which SDPA does not compute, is read here too"
            raise Unfit(reader, what)
        for name in sorted(names(reader) & lost):
            kept = [*ast.parse(f"{name} = {blank}").body, *kept]
            lost.remove(name)
    weights = [name for name, value in walked.env.items() if first <= value.statement <= last]
    return Chain(
        owner=walked.owner,
        method=walked.method,
        suite=suite,
        first=first,
        last=last,
        scores=scores,
        value=context.value,
        product=context.product,
        kept=kept,
        weights=sorted(weights),
    )


def _values_read(reader: ast.AST) -> set[str]:
    """The names in it that are read for more than their dtype and their device."""
    formed: list[ast.expr] = []
    for attribute in walk(reader, ast.Attribute):
        if attribute.attr in ("dtype", "device"):
            formed.append(attribute.value)
    for call in walk(reader, ast.Call):
        if method_of(call) in AS:
            formed += call.args
    return {node.id for node in walk(reader, ast.Name) if node not in formed}


@dataclass(frozen=True, eq=False)
class Context:
    """`product`, that of weights and `value`, in the statement of that number."""

    scores: Scores
    value: ast.expr
    product: ast.expr
    statement: int


@dataclass
class Walk:
    """One walk over a suite of `method`: the values of names, and what was found.

    Each finding has the index of its statement.
    """

    owner: Class
    method: ast.FunctionDef
    env: dict[str, Scores] = field(default_factory=dict)
    kept: list[tuple[int, ast.stmt]] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    uses: list[tuple[int, Unfit]] = field(default_factory=list)
    index: int = 0
    condition: ast.expr | None = None
    otherwise: bool = False  # in the second branch of a condition

    def statement(self, node: ast.stmt) -> Suite:
        """The part of `node` that does not compute an attention."""
        if isinstance(node, CHECKS):
            return []
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.Expr(ast.Call(func=ast.Attribute(ast.Name(id=name), "masked_fill_")) as value)
            ):
                return self._bind(name, value, node)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if name in self.env:
                read = ast.copy_location(ast.Name(name, ast.Load()), node)
                return self._bind(name, ast.copy_location(ast.BinOp(read, op, value), node), node)
            case ast.If(body=body, orelse=[]) if all(isinstance(n, CHECKS) for n in body):
                return []  # SDPA checks its inputs too
            case ast.If() if (names(node) | stored(node)) & self.env.keys():
                return self._branch(node)
        if isinstance(node, BLOCKS):
            if names(node) & self.env.keys():
                self.use(node)
            return self._rest(node)
        for child in ast.iter_child_nodes(node):
            scores = self.value(child) if isinstance(child, ast.expr) else None
            if scores is not None and isinstance(node, ast.Expr) and not scores.weights:
                self.use(node)
        return self._rest(node)

    def _bind(self, name: str, value: ast.expr, node: ast.stmt) -> Suite:
        if (scores := self.value(value)) is not None:
            self.env[name] = scores
            return []
        if isinstance(value, ast.Constant) and value.value is None and name in self.env:
            return []  # in one branch there are no weights
        return self._rest(node)

    def _rest(self, node: ast.stmt) -> Suite:
        for name in stored(node):
            self.env.pop(name, None)
        return [node]

    def _branch(self, node: ast.If) -> Suite:
        """Both branches, one after the other: a term or factor has the condition of its branch."""
        test = node.test
        self.value(test)
        negated = ast.UnaryOp(ast.Not(), test)
        otherwise = ast.copy_location(negated, test)
        body = self._under(test, node.body, otherwise=False)
        orelse = self._under(otherwise, node.orelse, otherwise=True)
        if not body and not orelse:
            return []
        kept = ast.If(test, body or [ast.Pass()], orelse)
        return [ast.copy_location(kept, node)]

    def _under(self, test: ast.expr, suite: Suite, *, otherwise: bool) -> Suite:
        """What of a branch computes no attention."""
        outer = self.condition
        self.condition = test if outer is None else ast.BoolOp(ast.And(), [outer, test])
        self.otherwise = otherwise
        kept = []
        for statement in suite:
            kept += self.statement(statement)
        self.condition = outer
        self.otherwise = False
        return kept

    def use(self, node: ast.AST, why: str = "") -> None:
        """Record that scores or weights are used in a way that no attention uses them."""
        why = why or f"the scores go into `{ast.unparse(node)[:60]}`"
        self.uses.append((self.index, Unfit(node, why)))

    def value(self, node: ast.expr) -> Scores | None:
        """The scores or weights that `node` computes; None if it is something else."""
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
            case ast.Call(args=[x]) if self._is_dropout(node):
                # The rate is zero outside training.
                return self._dropped(self.value(x), f"{called(node)}.p")
            case ast.BinOp(op=operator) if not isinstance(operator, ast.MatMult):
                return self._arithmetic(node)
        for kind in [*SHAPES][:-1]:
            holes = _holes(kind, node)
            if holes is not None:
                return self._step(kind, node, holes)
        if method_of(node) not in ("append", *AS):
            for child in ast.iter_child_nodes(node):
                child = child.value if isinstance(child, ast.keyword) else child
                if isinstance(child, ast.expr) and self.value(child) is not None:
                    self.use(node)
        return None

    def _step(self, kind: str, node: ast.expr, holes: Mapping[str, ast.expr]) -> Scores | None:
        if kind == "product":
            return self._product(node, holes["left"], holes["right"])
        if kind == "baddbmm":
            return self._baddbmm(holes)
        scores = self.value(holes["x"])
        if scores is None or kind == "dropout":
            return self._dropped(scores, ast.unparse(holes["rate"])) if scores else None
        if kind == "same":
            return _with_heads(node, scores)
        if kind == "softmax":
            if not scores.weights or self.otherwise:  # each branch takes it, in another dtype
                return replace(scores, weights=True)
            self.use(node, "softmax is taken twice")
        elif scores.weights:
            self.use(node, "weights are changed after softmax")
        elif isinstance(number := constant(holes["number"]), int | float) and number > -1e4:
            self.use(node, f"scores are set to `{number}`")
        elif kind == "hidden":
            return self._plus(scores, "hide", holes["mask"])
        else:
            least = " ".join(map(ast.unparse, self._assigned(holes["number"])))
            if number is not None or "finfo" in least:
                return self._plus(scores, "hide", ast.UnaryOp(ast.Invert(), holes["mask"]))
            self.use(node)
        return None

    def _product(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Scores | None:
        weights = self.value(left)
        if weights is not None and weights.weights:
            self.contexts.append(Context(weights, right, node, self.index))
        elif weights is not None or self.value(right) is not None:
            self.use(node, f"`{ast.unparse(node)[:60]}` is no product of weights and values")
        else:
            return self._scores(left, right)
        return None

    def _scores(self, left: ast.expr, right: ast.expr) -> Scores:
        match right:
            case ast.BinOp(left=key, op=ast.Mult() | ast.Div() as operator, right=factor):
                turned = _holes("turned", key)
                if turned is not None:
                    # A factor of the key becomes one of the query.
                    return Scores(self.index, ast.BinOp(left, operator, factor), turned["x"])
        turned = _holes("turned", right)
        if turned is not None:
            return Scores(self.index, left, turned["x"])
        return Scores(self.index, left, parsed(f"({ast.unparse(right)}).transpose(-1, -2)"))

    def _baddbmm(self, holes: Mapping[str, ast.expr]) -> Scores:
        """added * beta + (left @ right) * alpha."""
        product = self._scores(holes["left"], holes["right"])
        factor = Factor("*", holes["alpha"])
        scores = replace(product, factors=(factor,))
        beta = constant(holes["beta"])
        makers = {last(called(value)) for value in self._assigned(holes["added"])}
        is_blank = bool(makers) and makers <= {"zeros", "empty"}
        if beta == 0 or is_blank:
            return scores
        added = Term("add", holes["added"])
        if beta != 1:
            added = replace(added, factors=(Factor("*", holes["beta"]),))
        return replace(scores, terms=(added,))

    def _assigned(self, node: ast.expr) -> list[ast.expr]:
        """Every value that the method assigns to the name `node`."""
        assignments = walk(self.method.body, ast.Assign)
        return [assign.value for assign in assignments if stored(assign) == {dotted(node)}]

    def _is_dropout(self, node: ast.expr) -> bool:
        # A module that may also be an Identity has no rate to read.
        kinds = self.owner.held(last(called(node))) if called(node).startswith("self.") else ()
        return bool(kinds) and {"Dropout", "StableDropout"}.issuperset(kinds)

    def _dropped(self, scores: Scores | None, rate: str) -> Scores | None:
        if scores is None or not scores.weights:
            return None
        value: ast.expr = parsed(f"{rate} if self.training else 0.0")
        if self.condition is not None and not self.otherwise:
            value = ast.IfExp(self.condition, value, ast.Constant(0.0))
        return replace(scores, dropout=scores.dropout or value)

    def _arithmetic(self, node: ast.BinOp) -> Scores | None:
        left = self.value(node.left)
        right = self.value(node.right)
        scores, other = (left, node.right) if left is not None else (right, node.left)
        if scores is None:
            return None
        if not scores.weights:
            match node.op:
                case ast.Add():
                    return self._plus(scores, "add", other)
                case ast.Mult():
                    return self._scaled(node, scores, "*", other)
                case ast.Div() if left is not None:
                    return self._scaled(node, scores, "/", other)
        self.use(node)
        return None

    def _plus(self, scores: Scores, kind: str, value: ast.expr) -> Scores:
        return replace(scores, terms=(*scores.terms, Term(kind, value, self.condition)))

    def _scaled(
        self, node: ast.expr, scores: Scores, operator: str, value: ast.expr
    ) -> Scores | None:
        if not _is_number(value, self.owner):
            return self._scaled_by_head(node, scores, operator, value)
        factor = Factor(operator, value, self.condition)
        terms = []
        for term in scores.terms:
            if term.kind != "hide":  # a hidden score stays hidden at any scale
                term = replace(term, factors=(*term.factors, factor))
            terms.append(term)
        return replace(scores, factors=(*scores.factors, factor), terms=tuple(terms))

    def _scaled_by_head(
        self, node: ast.expr, scores: Scores, operator: str, value: ast.expr
    ) -> Scores | None:
        """The scores with one factor for each head, for example, which scales the queries."""
        assigned = self._assigned(value)
        read = [attribute.attr for attribute in walk([value, *assigned], ast.Attribute)]
        is_parameter = any("Parameter" in self.owner.held(name) for name in read)
        is_computed = is_parameter or isinstance(value, ast.Call)
        if scores.terms or not is_computed:
            what = f"`{ast.unparse(value)[:60]}`, which scales the scores, may be more than"
            self.use(node, f"{what} one number")
            return None
        kind = ast.Mult() if operator == "*" else ast.Div()
        query = ast.BinOp(scores.query, kind, value)
        return replace(scores, query=query)


def _holes(kind: str, node: ast.expr) -> dict[str, ast.expr] | None:
    fits = (fit_expression(shape, node, holes) for shape, holes in _PARSED[kind])
    return next((fit for fit in fits if fit is not None), None)


def _is_number(node: ast.expr, owner: Class) -> bool:
    """Whether `node` looks like a number: a literal, arithmetic of numbers, an attribute."""
    match node:
        case ast.Constant() | ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.UnaryOp(operand=operand):
            return _is_number(operand, owner)
        case ast.BinOp(left=left, right=right):
            return _is_number(left, owner) and _is_number(right, owner)
        case ast.Call():
            name = called(node)
            numbers = ("float", "int", "len", "torch_float")
            return name.startswith(("math.", "np.")) or name in numbers
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return "Parameter" not in owner.held(name)
        case _:
            return dotted(node).startswith(("self.config.", "config."))


def _with_heads(node: ast.expr, scores: Scores) -> Scores:
    """`scores` with the number of heads, which `scores.view(batch, heads, queries, keys)` shows."""
    axes = node.args if isinstance(node, ast.Call) else []
    if len(axes) == 1 and isinstance(axes[0], ast.Tuple):
        axes = axes[0].elts
    if method_of(node) != "view" or len(axes) != 4 or scores.heads is not None:
        return scores
    return replace(scores, heads=axes[1])
