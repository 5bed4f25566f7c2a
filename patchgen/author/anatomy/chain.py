"""Attentions that are written out in the methods of a class: scores, softmax, dropout, product.

    scores = (query @ key^T) * factors + terms
    probabilities = dropout(softmax(scores))
    context = probabilities @ value

Takes a class; returns a `Chain` for each softmax between two matrix products, and a reason for each
softmax that cannot be replaced.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen.author.anatomy.code import names, statements_of, stored, walk
from patchgen.author.anatomy.module import Class
from patchgen.author.anatomy.steps import (
    Context,
    Probabilities,
    Scores,
    Unplaced,
    Walk,
    softmaxed,
)


@dataclass(frozen=True, eq=False)
class Chain:
    """An attention that is written out in `method`.

    Statements `first` to `last` of `suite` compute it and nothing else, except for `kept`, which
    SDPA needs too.  `weights` are names that become None, because SDPA gives no weights.
    """

    owner: Class
    method: ast.FunctionDef
    suite: tuple[ast.stmt, ...]
    first: int
    last: int
    context: Context
    kept: tuple[ast.stmt, ...]
    weights: tuple[str, ...]

    @property
    def scores(self) -> Scores:
        return self.context.probabilities.scores

    @property
    def dropout(self) -> ast.expr | None:
        return self.context.probabilities.dropout


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
        softmaxes = [c for c in walk(method.body, ast.Call) if softmaxed(c) is not None]
        if not softmaxes:
            continue
        covered: set[int] = set()
        failures: list[tuple[Unplaced, set[int]]] = []
        for suite in statements_of(method):
            inside = {id(node) for statement in suite for node in ast.walk(statement)}
            try:
                for chain in _in_suite(owner, method, suite):
                    found.append(chain)
                    statements = chain.suite[chain.first : chain.last + 1]
                    covered |= {id(call) for call in walk(statements, ast.Call)}
            except Unplaced as unplaced:
                failures.append((unplaced, inside))
        for softmax in softmaxes:
            if id(softmax) not in covered:
                whys = [why for why, inside in failures if id(softmax) in inside]
                what = "its softmax is not of a product of two values"
                why = whys[0] if whys else Unplaced(softmax, what)
                missed.append(Missed(owner, method, why.node, why.why, bool(whys)))
    return tuple(found), tuple(missed)


def _in_suite(owner: Class, method: ast.FunctionDef, suite: list[ast.stmt]) -> list[Chain]:
    """The attentions whose product with the values is a statement of `suite`."""
    walked = Walk(owner, method)
    for walked.index, statement in enumerate(suite):
        walked.kept += [(walked.index, node) for node in walked.statement(statement)]
    if walked.uses and not walked.contexts and any(softmaxed(c) for c in walk(suite, ast.Call)):
        raise walked.uses[0][1]
    return [_chain(walked, suite, context, at) for context, at in walked.contexts]


def _chain(walked: Walk, suite: list[ast.stmt], context: Context, at: int) -> Chain:
    scores = context.probabilities.scores
    if isinstance(suite[at], ast.If | ast.For | ast.While | ast.With | ast.Try):
        raise Unplaced(context.node, "the product with the values stands under a condition")
    for index, why in walked.uses:
        if scores.statement <= index <= at:
            raise why
    kept = tuple(node for index, node in walked.kept if scores.statement <= index < at)
    parameters = {arg.arg for arg in walk(walked.method.args, ast.arg)}
    states = (names(scores.query) | names(scores.key)) & (
        stored(suite[: scores.statement]) | parameters
    )
    for index, node in walked.kept:
        if scores.statement < index < at and (name := min(stored(node) & states, default="")):
            raise Unplaced(node, f"`{name}` is bound again before the scores are used")
    # The names that nothing binds any more, if the scores are not computed.
    lost = {name for node in suite[scores.statement : at] for name in stored(node)}
    lost -= {name for node in kept for name in stored(node)}
    arguments = [scores.query, scores.key, context.value, *(term.value for term in scores.terms)]
    for reader in (*kept, *arguments):
        if name := min(names(reader) & lost, default=""):
            raise Unplaced(reader, f"`{name}`, which SDPA does not compute, is read here too")
    weights = []
    for name, value in walked.env.items():
        inner = value.scores if isinstance(value, Probabilities) else value
        if isinstance(inner, Scores) and scores.statement <= inner.statement <= at:
            weights.append(name)
    return Chain(
        walked.owner,
        walked.method,
        tuple(suite),
        scores.statement,
        at,
        context,
        kept,
        tuple(sorted(weights)),
    )
