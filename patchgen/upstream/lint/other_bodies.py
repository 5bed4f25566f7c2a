"""Find methods that are shipped with other statements, or with the same ones in another order.

    inherited       self.act = f(x)          shipped        self.norm = g(x)
                    self.norm = g(x)                        self.act = f(x)         PG706

One finding a method: the rules in the order of `rules.BODY_RULES`, of which the first that explains
the difference counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.comparison import MethodComparison
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.normalize import short
from patchgen.upstream.lint.verdict import DiffKind


def other_order(method: MethodComparison) -> Iterator[Problem]:
    """PG706: the same statements, in an order that matters."""
    if method.verdict.kind is DiffKind.ORDER:
        ours, theirs = _show(method.verdict.ours), _show(method.verdict.theirs)
        what = f"{method.title} would run {ours} before {theirs}; shipped is the other order"
        yield finding("PG706", method.at, what)


def repeated_statements(method: MethodComparison) -> Iterator[Problem]:
    """PG707: a statement that the shipped method has once less."""
    if method.verdict.kind is DiffKind.REPEATED:
        ours = _show(method.verdict.ours)
        what = f"{method.title} would run {ours} once more than the shipped method"
        yield finding("PG707", method.at, what)


def replaced_assignments(method: MethodComparison) -> Iterator[Problem]:
    """PG713: an assignment in the place of an earlier one whose value is read."""
    if method.verdict.kind is DiffKind.REPLACED:
        ours, theirs = _show(method.verdict.ours), _show(method.verdict.theirs)
        what = (
            f"{method.title} would run {ours} too, and read it before "
            f"{theirs}, which is in its place"
        )
        yield finding("PG713", method.at, what)


def moved_post_init(method: MethodComparison) -> Iterator[Problem]:
    """PG727: `post_init` before the modules that the child adds."""
    if method.verdict.kind is DiffKind.POST_INIT:
        what = (
            f"{method.title} would run `self.post_init()` before the end of "
            "the method, and what follows after it"
        )
        yield finding("PG727", method.at, what)


def other_statements(method: MethodComparison) -> Iterator[Problem]:
    """PG720: any other difference."""
    if method.verdict.kind is DiffKind.OTHER:
        ours, theirs = _show(method.verdict.ours), _show(method.verdict.theirs)
        what = f"{method.title} would have {ours} where {theirs} is shipped"
        yield finding("PG720", method.at, what)


def _show(node: ast.stmt | None) -> str:
    return f"`{short(node)}`" if node else "`nothing`"
