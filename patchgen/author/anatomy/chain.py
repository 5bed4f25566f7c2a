"""Attentions that are written out in the methods of a class: scores, softmax, dropout, product.

Takes a class; returns a `Chain` for each softmax between two matrix products, and a reason for each
softmax that cannot be replaced.  A softmax without a product before and after it is no attention.
The statements are evaluated one by one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.author.anatomy.code import called, last, names, statements_of, stored, walk
from patchgen.author.anatomy.module import Class
from patchgen.author.anatomy.operations import softmax_of
from patchgen.author.anatomy.scores import Context, Probabilities, Scores, Unplaced
from patchgen.author.anatomy.suite import Evaluation


@dataclass(frozen=True, eq=False)
class Chain:
    """An attention that is written out in `method`.

    Statements `first` to `last` of `suite` compute it and nothing else, except for `kept`, which
    SDPA needs too.  `weights` are names that become None, because SDPA gives no weights.  `context`
    is computed by the last statement, `inner` are contexts that earlier statements compute.  All
    this holds if none of the conditions `unless` is true.
    """

    owner: Class
    method: ast.FunctionDef
    suite: tuple[ast.stmt, ...]
    first: int
    last: int
    scores: Scores
    dropout: ast.expr | None
    context: Context
    kept: tuple[ast.stmt, ...]
    weights: tuple[str, ...]
    inner: tuple[Context, ...] = ()
    unless: tuple[ast.expr, ...] = ()

    @property
    def contexts(self) -> tuple[Context, ...]:
        """Every context, in order."""
        return (*self.inner, self.context)


@dataclass(frozen=True, eq=False)
class Missed:
    """A softmax of `method` that cannot be replaced, why, and the node that shows it."""

    owner: Class
    method: ast.FunctionDef
    node: ast.AST
    why: str
    attention: bool


def chains(owner: Class) -> tuple[tuple[Chain, ...], tuple[Missed, ...]]:
    """The attentions in the own methods of `owner`, and the softmaxes that are left."""
    found: list[Chain] = []
    missed: list[Missed] = []
    for method in owner.own.values():
        softmaxes = _softmaxes(owner, method)
        if not softmaxes and not _calls_softmax(owner, method):
            continue
        here, failures = _in_method(owner, method)
        found += here
        covered: set[int] = set()
        for chain in here:
            statements = chain.suite[chain.first : chain.last + 1]
            covered |= {id(call) for call in walk(statements, ast.Call)}
        for softmax in softmaxes:
            if id(softmax) not in covered:
                missed.append(_missed(owner, method, softmax, failures))
    return tuple(found), tuple(missed)


def _calls_softmax(owner: Class, method: ast.FunctionDef) -> bool:
    """Whether `method` calls another method of the class that computes a softmax."""
    for call in walk(method.body, ast.Call):
        other = owner.own.get(last(called(call)))
        if other is not None and other is not method and _softmaxes(owner, other):
            return True
    return False


def _missed(
    owner: Class,
    method: ast.FunctionDef,
    softmax: ast.Call,
    failures: Sequence[tuple[list[ast.stmt], Unplaced]],
) -> Missed:
    for suite, failure in failures:
        if _inside(softmax, suite):
            return Missed(owner, method, failure.node, failure.why, True)
    return Missed(owner, method, softmax, "its softmax is not of a product of two values", False)


def _softmaxes(owner: Class, method: ast.FunctionDef) -> list[ast.Call]:
    return [call for call in walk(method.body, ast.Call) if softmax_of(call, owner) is not None]


def _inside(node: ast.AST, suite: Sequence[ast.stmt]) -> bool:
    return any(node is other for statement in suite for other in ast.walk(statement))


def _in_method(
    owner: Class, method: ast.FunctionDef
) -> tuple[list[Chain], list[tuple[list[ast.stmt], Unplaced]]]:
    found: list[Chain] = []
    failures: list[tuple[list[ast.stmt], Unplaced]] = []
    for suite in statements_of(method):
        here, why = _of_statements(owner, method, suite)
        found += here
        failures += [(suite, failure) for failure in why]
    return found, failures


def _of_statements(
    owner: Class, method: ast.FunctionDef, suite: list[ast.stmt]
) -> tuple[list[Chain], list[Unplaced]]:
    """The attentions in one suite, and why others are not found.

    Evaluates the suite with up to four settings, from simple to permissive.  Returns the result of
    the first that has no failures, else of the one that finds most.
    """
    first = Evaluation(owner, method)
    first.run(suite)
    best, why = _of_suite(first, suite)
    if not why:
        return best, why
    for opaque, leaving in ((True, False), (False, True), (True, True)):
        untracked = _culprits(first) if opaque else frozenset()
        evaluation = Evaluation(owner, method, untracked, leaving=leaving)
        evaluation.run(suite)
        found, failures = _of_suite(evaluation, suite)
        if len(found) > len(best):
            best, why = found, failures
        if found and not failures:
            break
    return best, why


def _culprits(evaluation: Evaluation) -> frozenset[str]:
    """The names that should not have been tracked.

    After the last context, weights may be used anywhere: that is checked later.
    """
    if not evaluation.contexts:
        return frozenset(evaluation.culprits)
    last_context = max(at for _, at in evaluation.contexts)
    return frozenset(name for name, at in evaluation.culprits.items() if at <= last_context)


def _of_suite(evaluation: Evaluation, suite: list[ast.stmt]) -> tuple[list[Chain], list[Unplaced]]:
    found: list[Chain] = []
    why: list[Unplaced] = [*evaluation.failures]
    for contexts in _together(evaluation.contexts):
        try:
            found.append(_chain(evaluation, suite, contexts))
        except Unplaced as failure:
            why.append(failure)
    if evaluation.softmaxes and not evaluation.contexts and evaluation.uses:
        why.append(Unplaced(*evaluation.uses[-1][1:]))
    return found, why


def _together(contexts: Sequence[tuple[Context, int]]) -> list[list[tuple[Context, int]]]:
    """Groups of contexts whose statements overlap: LiLT computes two contexts from one sum."""
    groups: list[list[tuple[Context, int]]] = []
    for context, at in sorted(contexts, key=lambda found: found[1]):
        first = context.probabilities.scores.statement
        group = [(context, at)]
        while groups and groups[-1][-1][1] >= first:
            group = [*groups.pop(), *group]
        groups.append(group)
    return groups


def _chain(
    evaluation: Evaluation, suite: list[ast.stmt], contexts: list[tuple[Context, int]]
) -> Chain:
    owner, method = evaluation.owner, evaluation.method
    context, last_at = contexts[-1]
    if isinstance(suite[last_at], ast.If | ast.For | ast.While | ast.With | ast.Try):
        # If its scores are computed there as well, the walk over the inner suite finds it.
        raise Unplaced(context.node, "the product with the values stands under a condition")
    first = min(one.probabilities.scores.statement for one, _ in contexts)
    kept = tuple(node for index, node in evaluation.kept if first <= index < last_at)
    for index, node, why in evaluation.uses:
        if first <= index <= last_at:
            raise Unplaced(node, why)
    for one, at in contexts:
        _refuse_rebound(evaluation, one, at)
    _refuse_reading_scores(evaluation, suite, first, last_at)
    weights = _weights(evaluation, first, last_at)
    _refuse_other_readers(method, suite[last_at], weights)
    return Chain(
        owner,
        method,
        tuple(suite),
        first,
        last_at,
        context.probabilities.scores,
        context.probabilities.dropout,
        context,
        kept,
        tuple(sorted(weights)),
        tuple(one for one, _ in contexts[:-1]),
        tuple(test for test, index in evaluation.unless if first <= index <= last_at),
    )


def _refuse_rebound(evaluation: Evaluation, context: Context, at: int) -> None:
    """Refuse a name that a kept statement binds again: SDPA would get the new value."""
    scores = context.probabilities.scores
    arguments = [scores.query, scores.key, context.value, context.probabilities.dropout]
    for factor in scores.factors:
        arguments.append(factor.condition)
    for term in scores.terms:
        arguments += [term.value, term.condition]
    used = {id(argument) for argument in arguments}
    for expression, index in evaluation.recorded:
        if id(expression) not in used:
            continue
        bound_later: set[str] = set()
        for place, node in evaluation.kept:
            if index < place < at:
                bound_later |= stored(node)
        if again := sorted(names(expression) & bound_later):
            raise Unplaced(expression, f"`{again[0]}` is bound again before the scores are used")


def _refuse_reading_scores(
    evaluation: Evaluation, suite: list[ast.stmt], first: int, at: int
) -> None:
    """Refuse a kept statement that reads a name which is no longer bound under SDPA."""
    kept = [(index, node) for index, node in evaluation.kept if first <= index <= at]
    still_bound: set[str] = set()
    for _, node in kept:
        still_bound |= stored(node)
    # The first statement that binds each name that is lost.
    lost: dict[str, int] = {}
    for number in range(first, at + 1):
        for name in stored(suite[number]) - still_bound:
            lost.setdefault(name, number)
    places = {id(context.node) for context, _ in evaluation.contexts}
    for index, node in kept:
        if any(id(inner) in places for inner in ast.walk(node)):
            continue
        for name in sorted(names(node)):
            if name in lost and index >= lost[name]:
                what = f"`{name}`, which SDPA does not compute, is read by another statement"
                raise Unplaced(node, what)


def _weights(evaluation: Evaluation, first: int, at: int) -> set[str]:
    """The names that hold scores or probabilities of these statements after them."""
    found = set()
    for name, value in evaluation.env.items():
        if isinstance(value, Scores | Probabilities):
            if first <= _scores_of(value).statement <= at:
                found.add(name)
    return found


def _scores_of(value: Scores | Probabilities) -> Scores:
    return value if isinstance(value, Scores) else value.scores


def _refuse_other_readers(method: ast.FunctionDef, end: ast.stmt, weights: set[str]) -> None:
    """Refuse code after the attention that computes with the weights: it would compute with None.

    Weights may be returned and collected.  Code under a condition on `output_attentions` runs only
    if there are weights.
    """
    end_line = end.end_lineno or 0
    above = {id(child): node for node in ast.walk(method) for child in ast.iter_child_nodes(node)}
    for name in walk(method.body, ast.Name):
        is_read = isinstance(name.ctx, ast.Load) and name.lineno > end_line
        if name.id not in weights or not is_read:
            continue
        lineage = list(_lineage(name, above))
        if not _asks_for_weights(lineage) and not _collects(lineage[0]):
            what = f"`{name.id}`, the weights, is computed with again after the attention"
            raise Unplaced(name, what)


def _asks_for_weights(lineage: Sequence[ast.AST]) -> bool:
    for node in lineage:
        if isinstance(node, ast.If | ast.IfExp) and "output_attentions" in names(node.test):
            return True
    return False


def _collects(parent: ast.AST) -> bool:
    """Whether a node only passes on a value inside it: `(a, weights)`, `found.append(weights)`."""
    match parent:
        case ast.Call(func=ast.Attribute(attr="append")):
            return True
        case ast.Tuple() | ast.List() | ast.Return() | ast.IfExp() | ast.keyword() | ast.Assign():
            return True
        case _:
            return False


def _lineage(node: ast.AST, above: dict[int, ast.AST]) -> Iterator[ast.AST]:
    while id(node) in above:
        node = above[id(node)]
        yield node
