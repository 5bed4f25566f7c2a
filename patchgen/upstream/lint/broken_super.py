"""Find calls of the parent's method that lose their meaning when transformers copies its text.

class NewMLP(OldMLP):
    def forward(self, x):
        return super().forward(x * 2)       PG729: the argument is ignored
"""

from __future__ import annotations

from collections.abc import Iterator

from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.comparison import MethodComparison
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.normalize import short
from patchgen.upstream.lint.super_calls import (
    call_without_self,
    dropped_result,
    ignored_arguments,
    lost_super,
)
from patchgen.upstream.lint.verdict import DiffKind


def missing_self(method: MethodComparison) -> Iterator[Problem]:
    """PG732: a call of a class's own method that passes no `self`."""
    if method.own is None or method.verdict.kind is not DiffKind.OTHER:
        return
    call = call_without_self(method.own, method.right)
    if call is not None:
        what = f"{method.title} has `{short(call)}`, which passes no self; shipped is super()"
        yield finding("PG732", method.at, what, "pass self, or write super()")


def unreached_parent(method: MethodComparison) -> Iterator[Problem]:
    """PG730: a `super()` that goes past the parent."""
    if method.verdict.kind is not DiffKind.OTHER:
        return
    # The parent is no base of the shipped class: its text has become part of that class.
    pair = method.whole.pair
    lost = lost_super(method.own, pair.above)
    if lost is not None:
        what = f"{method.title} keeps `{short(lost)}`, which no longer reaches {pair.renamed}"
        yield finding("PG730", method.at, what, "write out what the parent's method does")


def unwanted_return(method: MethodComparison) -> Iterator[Problem]:
    """PG731: a call for its effect, in whose place the parent's `return` stands."""
    own, above = method.own, method.above
    if own is None or above is None or method.verdict.kind is not DiffKind.OTHER:
        return
    dropped = dropped_result(own, above)
    if dropped is not None:
        what = f"{method.title} returns what `{short(dropped)}` returns, which it would throw away"
        yield finding("PG731", method.at, what, "write `return` in front of the call")


def other_arguments(method: MethodComparison) -> Iterator[Problem]:
    """PG729: arguments that the copied body does not read."""
    own, above = method.own, method.above
    if own is None or above is None or method.verdict.kind is not DiffKind.OTHER:
        return
    ignored = ignored_arguments(own, above)
    if ignored is not None:
        what = f"{method.title} passes other arguments in `{short(ignored)}`, which are ignored"
        yield finding("PG729", method.at, what, "assign to the parent's parameters first")
