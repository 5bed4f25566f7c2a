"""The softmax chains of a class: scores, softmax, dropout, times values; by evaluating the statements one by one.

In: a class.  Out: a `Chain` for each softmax between two matrix products, and a reason for each that cannot be placed.
A softmax that no product comes before, or none behind, is none of attention's.
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
    """An attention that is written out in `method`: statements `first` to `last` of `suite` do nothing else but it.

    `kept` are statements between that SDPA needs too; `weights` are names that are None where there are no weights.
    `inner` are contexts that statements before the last one make, `context` is that of the last; they are contexts of
    such scores where none of `unless` holds.
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
        """Every context, the last one last."""
        return (*self.inner, self.context)


@dataclass(frozen=True, eq=False)
class Missed:
    """A softmax of `method` that is no chain: `why`, and where that shows."""

    owner: Class
    method: ast.FunctionDef
    node: ast.AST
    why: str
    attention: bool


def chains(owner: Class) -> tuple[tuple[Chain, ...], tuple[Missed, ...]]:
    """What the methods that `owner` itself defines compute by softmax."""
    found: list[Chain] = []
    missed: list[Missed] = []
    for method in owner.own.values():
        softmaxes = _softmaxes(owner, method)
        inner = [owner.own.get(last(called(call))) for call in walk(method.body, ast.Call)]
        inside = [
            one for one in inner if one is not None and one is not method and _softmaxes(owner, one)
        ]
        if not softmaxes and not inside:
            continue
        here, failures = _in_method(owner, method)
        found += here
        covered = {
            id(node)
            for chain in here
            for node in walk(chain.suite[chain.first : chain.last + 1], ast.Call)
        }
        for softmax in softmaxes:
            if id(softmax) in covered:
                continue
            why = next((f for f in failures if _inside(softmax, f[0])), None)
            if why is None:
                missed.append(
                    Missed(owner, method, softmax, "softmax of what is no product of two", False)
                )
            else:
                missed.append(Missed(owner, method, why[1].node, why[1].why, True))
    return tuple(found), tuple(missed)


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
    """What a walk over `suite` finds: the first that finds all there is, or the one that finds most."""
    best: tuple[list[Chain], list[Unplaced]] = ([], [])
    first = Evaluation(owner, method)
    for number, (opaque, leaving) in enumerate(
        ((False, False), (True, False), (False, True), (True, True))
    ):
        evaluation = Evaluation(
            owner, method, _culprits(first) if opaque else frozenset(), leaving=leaving
        )
        evaluation = evaluation if number else first
        evaluation.run(suite)
        found, why = _of_suite(evaluation, suite)
        why = [*evaluation.failures, *why]
        if number == 0 or len(found) > len(best[0]):
            best = (found, why)
        if not why and (found or number == 0):
            break
    return best


def _culprits(evaluation: Evaluation) -> frozenset[str]:
    """What a walk should not have tracked; weights may go wherever they like behind the last context."""
    last = max((at for _, at in evaluation.contexts), default=None)
    return frozenset(
        name for name, index in evaluation.culprits.items() if last is None or index <= last
    )


def _of_suite(evaluation: Evaluation, suite: list[ast.stmt]) -> tuple[list[Chain], list[Unplaced]]:
    found: list[Chain] = []
    why: list[Unplaced] = []
    for contexts in _together(evaluation.contexts):
        try:
            found.append(_chain(evaluation, suite, contexts))
        except Unplaced as failure:
            why.append(failure)
    if evaluation.softmaxes and not evaluation.contexts and evaluation.uses:
        why.append(Unplaced(*evaluation.uses[-1][1:]))
    return found, why


def _together(contexts: Sequence[tuple[Context, int]]) -> list[list[tuple[Context, int]]]:
    """The contexts whose statements overlap, from scores to context (LiLT has two of one sum of products)."""
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
        # Where its scores are made there as well, the walk over that suite finds it.
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
    """What the call reads is read behind the statements that are kept: a name must not have changed meanwhile."""
    scores = context.probabilities.scores
    parts = [scores.query, scores.key, context.value, context.probabilities.dropout]
    parts += [factor.condition for factor in scores.factors]
    parts += [part for term in scores.terms for part in (term.value, term.condition)]
    for expression, index in evaluation.recorded:
        if not any(expression is part for part in parts):
            continue
        later = {name for i, node in evaluation.kept if index < i < at for name in stored(node)}
        if again := sorted(names(expression) & later):
            raise Unplaced(expression, f"`{again[0]}` is bound again before the scores are used")


def _refuse_reading_scores(
    evaluation: Evaluation, suite: list[ast.stmt], first: int, at: int
) -> None:
    """What is kept must not read what is not made any more."""
    kept = [(index, node) for index, node in evaluation.kept if first <= index <= at]
    made = {name for _, node in kept for name in stored(node)}
    lost = {
        name: n for n in range(at, first - 1, -1) for name in stored(suite[n]) if name not in made
    }
    places = {id(context.node) for context, _ in evaluation.contexts}
    for index, node in kept:
        if any(id(inner) in places for inner in ast.walk(node)):
            continue
        for name in sorted(names(node)):
            if index >= lost.get(name, index + 1):
                raise Unplaced(
                    node, f"`{name}`, which SDPA does not make, is read by another statement"
                )


def _weights(evaluation: Evaluation, first: int, at: int) -> set[str]:
    """The names that hold scores or probabilities behind the chain of those statements."""
    return {
        name
        for name, value in evaluation.env.items()
        if isinstance(value, Scores | Probabilities) and first <= _scores_of(value).statement <= at
    }


def _scores_of(value: Scores | Probabilities) -> Scores:
    return value if isinstance(value, Scores) else value.scores


def _refuse_other_readers(method: ast.FunctionDef, end: ast.stmt, weights: set[str]) -> None:
    """Weights may be returned and collected; whoever computes with them would compute with None.

    What stands under a condition on `output_attentions` runs only where there are weights.
    """
    above = {id(child): node for node in ast.walk(method) for child in ast.iter_child_nodes(node)}
    for name in walk(method.body, ast.Name):
        if (
            name.id not in weights
            or not isinstance(name.ctx, ast.Load)
            or name.lineno <= (end.end_lineno or 0)
        ):
            continue
        lineage = list(_lineage(name, above))
        if any(
            isinstance(node, ast.If | ast.IfExp) and "output_attentions" in names(node.test)
            for node in lineage
        ):
            continue
        if not isinstance(
            lineage[0], ast.Tuple | ast.List | ast.Return | ast.IfExp | ast.keyword | ast.Assign
        ) and not (
            isinstance(lineage[0], ast.Call)
            and isinstance(lineage[0].func, ast.Attribute)
            and lineage[0].func.attr == "append"
        ):
            raise Unplaced(
                name, f"`{name.id}`, the weights, is computed with again behind the attention"
            )


def _lineage(node: ast.AST, above: dict[int, ast.AST]) -> Iterator[ast.AST]:
    while id(node) in above:
        node = above[id(node)]
        yield node
