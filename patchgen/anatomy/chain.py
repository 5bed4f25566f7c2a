"""The softmax chains of a class: scores, softmax, dropout, times values; by evaluating the statements one by one.

In: a class.  Out: a `Chain` for each softmax between two matrix products, and a reason for each that cannot be placed.
A softmax that no product comes before, or none behind, is none of attention's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.anatomy.code import called, last, names, statements_of, stored, walk
from patchgen.anatomy.module import Class
from patchgen.anatomy.operations import softmax_of
from patchgen.anatomy.scores import Context, Probabilities, Scores, Unplaced
from patchgen.anatomy.suite import Evaluation


@dataclass(frozen=True, eq=False)
class Chain:
    """An attention that is written out in `method`: statements `first` to `last` of `suite` do nothing else but it.

    `kept` are statements between that SDPA needs too; `weights` are names that are None where there are no weights.
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
        inside = [one for one in inner if one is not None and one is not method and _softmaxes(owner, one)]
        if not softmaxes and not inside:
            continue
        here, failures = _in_method(owner, method)
        found += here
        covered = {id(node) for chain in here for node in walk(chain.suite[chain.first : chain.last + 1], ast.Call)}
        for softmax in softmaxes:
            if id(softmax) in covered:
                continue
            why = next((f for f in failures if _inside(softmax, f[0])), None)
            if why is None:
                missed.append(Missed(owner, method, softmax, "softmax of what is no product of two", False))
            else:
                missed.append(Missed(owner, method, why[1].node, why[1].why, True))
    return tuple(found), tuple(missed)


def _softmaxes(owner: Class, method: ast.FunctionDef) -> list[ast.Call]:
    return [call for call in walk(method.body, ast.Call) if softmax_of(call, owner) is not None]


def _inside(node: ast.AST, suite: Sequence[ast.stmt]) -> bool:
    return any(node is other for statement in suite for other in ast.walk(statement))


def _in_method(owner: Class, method: ast.FunctionDef) -> tuple[list[Chain], list[tuple[list[ast.stmt], Unplaced]]]:
    found: list[Chain] = []
    failures: list[tuple[list[ast.stmt], Unplaced]] = []
    for suite in statements_of(method):
        evaluation = Evaluation(owner, method)
        evaluation.run(suite)
        here, why = _of_suite(evaluation, suite)
        if (why or evaluation.failures) and evaluation.culprits:
            # A product that something else is done with is a bias, made of the query: SDPA gets it as it is.
            again = Evaluation(owner, method, frozenset(evaluation.culprits))
            again.run(suite)
            here_again, why_again = _of_suite(again, suite)
            here, why = (here_again, why_again) if len(here_again) > len(here) else (here, why)
        found += here
        failures += [(suite, failure) for failure in (*evaluation.failures, *why)]
    return found, failures


def _of_suite(evaluation: Evaluation, suite: list[ast.stmt]) -> tuple[list[Chain], list[Unplaced]]:
    found: list[Chain] = []
    why: list[Unplaced] = []
    for context, at in evaluation.contexts:
        try:
            found.append(_chain(evaluation, suite, context, at))
        except Unplaced as failure:
            why.append(failure)
    if evaluation.softmaxes and not evaluation.contexts and evaluation.uses:
        why.append(Unplaced(*evaluation.uses[-1][1:]))
    return found, why


def _chain(evaluation: Evaluation, suite: list[ast.stmt], context: Context, at: int) -> Chain:
    owner, method = evaluation.owner, evaluation.method
    scores = context.probabilities.scores
    first = scores.statement
    kept = tuple(node for index, node in evaluation.kept if first <= index < at)
    for index, node, why in evaluation.uses:
        if first <= index <= at:
            raise Unplaced(node, why)
    _refuse_rebound(evaluation, scores, context, first, at)
    weights = _weights(evaluation, first, at)
    _refuse_other_readers(method, suite[at], weights)
    return Chain(
        owner,
        method,
        tuple(suite),
        first,
        at,
        scores,
        context.probabilities.dropout,
        context,
        kept,
        tuple(sorted(weights)),
    )


def _refuse_rebound(evaluation: Evaluation, scores: Scores, context: Context, first: int, at: int) -> None:
    """What the call reads is read behind the statements that are kept: a name must not have changed meanwhile."""
    for expression, index in evaluation.recorded:
        parts = [scores.query, scores.key, context.value, *(term.value for term in scores.terms)]
        if not any(expression is part for part in parts):
            continue
        later = {name for i, node in evaluation.kept if index < i <= at for name in stored(node)}
        if again := sorted(names(expression) & later):
            raise Unplaced(expression, f"`{again[0]}` is bound again before the scores are used")


def _weights(evaluation: Evaluation, first: int, at: int) -> set[str]:
    """The names that hold scores or probabilities behind the chain."""
    return {
        name
        for name, value in evaluation.env.items()
        if isinstance(value, Scores | Probabilities) and _scores_of(value).statement == first
    }


def _scores_of(value: Scores | Probabilities) -> Scores:
    return value if isinstance(value, Scores) else value.scores


def _refuse_other_readers(method: ast.FunctionDef, end: ast.stmt, weights: set[str]) -> None:
    """Weights may be returned and collected; whoever computes with them would compute with None.

    What stands under a condition on `output_attentions` runs only where there are weights.
    """
    above = {id(child): node for node in ast.walk(method) for child in ast.iter_child_nodes(node)}
    for name in walk(method.body, ast.Name):
        if name.id not in weights or not isinstance(name.ctx, ast.Load) or name.lineno <= (end.end_lineno or 0):
            continue
        lineage = list(_lineage(name, above))
        if any(isinstance(node, ast.If | ast.IfExp) and "output_attentions" in names(node.test) for node in lineage):
            continue
        if not isinstance(
            lineage[0], ast.Tuple | ast.List | ast.Return | ast.IfExp | ast.keyword | ast.Assign
        ) and not (
            isinstance(lineage[0], ast.Call)
            and isinstance(lineage[0].func, ast.Attribute)
            and lineage[0].func.attr == "append"
        ):
            raise Unplaced(name, f"`{name.id}`, the weights, is computed with again behind the attention")


def _lineage(node: ast.AST, above: dict[int, ast.AST]) -> Iterator[ast.AST]:
    while id(node) in above:
        node = above[id(node)]
        yield node
