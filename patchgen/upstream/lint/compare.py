"""Compare a shipped class with the one that Python's inheritance would give, member by member.

In: a pair, the inherited class and the shipped one.  Out: a problem for each member that behaves
differently, at its place in the modular file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen.errors import Location, Problem
from patchgen.upstream.lint.calls import (
    call_without_self,
    dropped_result,
    ignored_arguments,
    lost_super,
    named_super,
)
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.effects import DiffKind, Verdict, compare_bodies
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.members import members_of
from patchgen.upstream.lint.normalize import FunctionDef, dumped, same, short
from patchgen.upstream.lint.unrecognised_removals import is_raising


def differences(
    pair: Pair, case: Case, ours: ast.ClassDef, theirs: ast.ClassDef
) -> Iterator[Problem]:
    """Where the shipped class `theirs` is not `ours`."""
    bases = tuple(ast.unparse(base) for base in theirs.bases)
    comparison = _Comparison(pair, case, named_super(ours, bases), named_super(theirs, bases))
    yield from comparison.head()
    yield from comparison.attributes()
    yield from comparison.methods()


class _Comparison:
    """The two sides of one class."""

    def __init__(self, pair: Pair, case: Case, ours: ast.ClassDef, theirs: ast.ClassDef) -> None:
        self.pair, self.case = pair, case
        self.ours, self.theirs = ours, theirs
        self.left, self.right = members_of(ours), members_of(theirs)
        self.own = members_of(pair.child)

    def head(self) -> Iterator[Problem]:
        """Bases, keywords and decorators."""
        left, right = ([ast.unparse(b) for b in side.bases] for side in (self.ours, self.theirs))
        gone = [b for b in left if b not in right and not self._is_implied(b, right)]
        if gone or [b for b in left if b in right] != right:
            what = (
                f"{self.pair.name} would have the bases {', '.join(left)}; "
                f"shipped are {', '.join(right)}"
            )
            yield finding("PG723", self._at(None), what)
        if (lost := _lost(self.ours.decorator_list, self.theirs.decorator_list)) is not None:
            yield finding("PG724", self._at(None), f"{self.pair.name} {lost}")

    def _is_implied(self, base: str, shipped: Sequence[str]) -> bool:
        """Whether one of the shipped bases is what the modular file makes of `base`."""
        if base == "nn.Module":
            return "GradientCheckpointingLayer" in shipped
        return any(pair.name in shipped and pair.renamed == base for pair in self.case.pairs)

    def attributes(self) -> Iterator[Problem]:
        """Class attributes that differ, are missing or are too many."""
        for name in dict.fromkeys((*self.left.attributes, *self.right.attributes)):
            left, right = self.left.attributes.get(name), self.right.attributes.get(name)
            if same(left, right) or name == "__doc__":
                continue
            shown = [short(node) if node else "nothing" for node in (left, right)]
            what = f"{self.pair.name}.{name} would be `{shown[0]}`; shipped is `{shown[1]}`"
            yield self._about(name, finding("PG722", self._at(self.own.attributes.get(name)), what))
        for statement in self.left.others:
            if dumped(statement) not in map(dumped, self.right.others):
                what = f"{self.pair.name} loses `{short(statement)}` of its body"
                yield finding("PG711", self._at(self._in_child(statement)), what)

    def methods(self) -> Iterator[Problem]:
        """Methods that differ, are missing or are too many."""
        for name in dict.fromkeys((*self.left.methods, *self.right.methods)):
            left, right = self.left.methods.get(name, ()), self.right.methods.get(name, ())
            if list(map(dumped, left)) == list(map(dumped, right)):
                continue
            at = self._at(next(iter(self.own.methods.get(name, ())), None))
            if len(left) != len(right):
                yield self._about(name, self._presence(name, left, right, at))
                continue
            for one, other in zip(left, right, strict=True):
                yield from (
                    self._about(name, problem) for problem in self._method(name, one, other, at)
                )

    def _presence(
        self, name: str, left: Sequence[FunctionDef], right: Sequence[FunctionDef], at: Location
    ) -> Problem:
        whole = f"{self.pair.name}.{name}"
        if left and not right and is_raising(left[0]):
            what = f"{whole} would raise, and is not in the shipped class at all"
            return finding(
                "PG712", at, what, "write `raise AttributeError()` where removal is meant"
            )
        if not left or not right:
            what = (
                f"{whole} "
                f"{'is in the shipped class only' if right else 'is not in the shipped class'}"
            )
        else:
            what = f"{whole} would have {len(left)} definitions; shipped are {len(right)}"
        return finding("PG721", at, what)

    def _method(
        self, name: str, left: FunctionDef, right: FunctionDef, at: Location
    ) -> Iterator[Problem]:
        whole = f"{self.pair.name}.{name}"
        if (lost := _lost(left.decorator_list, right.decorator_list)) is not None:
            yield finding("PG724", at, f"{whole} {lost}")
        if left.args.kwarg and left.args.kwarg.arg == "super_kwargs":
            if not (right.args.kwarg and right.args.kwarg.arg == "super_kwargs"):
                what = (
                    f"{whole} would take ({ast.unparse(left.args)}); shipped "
                    "are the parent's parameters"
                )
                yield finding("PG728", at, what)
        elif not same(left.args, right.args):
            what = (
                f"{whole} would take ({ast.unparse(left.args)}); shipped "
                f"is ({ast.unparse(right.args)})"
            )
            yield finding("PG725", at, what)
        verdict = compare_bodies(left.body, right.body)
        if verdict.kind is not DiffKind.SAME:
            yield self._body(whole, verdict, left, right, at)

    def _body(
        self, whole: str, verdict: Verdict, left: FunctionDef, right: FunctionDef, at: Location
    ) -> Problem:
        shown = [short(node) if node else "nothing" for node in (verdict.ours, verdict.theirs)]
        match verdict.kind:
            case DiffKind.ORDER:
                what = (
                    f"{whole} would run `{shown[0]}` before `{shown[1]}`; "
                    "shipped is the other order"
                )
                return finding("PG706", at, what)
            case DiffKind.REPEATED:
                return finding(
                    "PG707", at, f"{whole} would run `{shown[0]}` once more than the shipped method"
                )
            case DiffKind.REPLACED:
                what = (
                    f"{whole} would run `{shown[0]}` too, and read it before "
                    f"`{shown[1]}`, which is in its place"
                )
                return finding("PG713", at, what)
            case DiffKind.POST_INIT:
                what = (
                    f"{whole} would run `self.post_init()` before the end of "
                    "the method, and what follows after it"
                )
                return finding("PG727", at, what)
        own = next(iter(self.own.methods.get(left.name, ())), None)
        above = next(iter(members_of(self.pair.above).methods.get(left.name, ())), None)
        if own and (call := call_without_self(own, right)) is not None:
            what = f"{whole} has `{short(call)}`, which passes no self; shipped is super()"
            return finding("PG732", at, what, "pass self, or write super()")
        if (lost := lost_super(own, self.pair.above)) is not None:
            what = f"{whole} keeps `{short(lost)}`, which no longer reaches {self.pair.renamed}"
            return finding("PG730", at, what, "write out what the parent's method does")
        if own and above and (dropped := dropped_result(own, above)) is not None:
            what = f"{whole} returns what `{short(dropped)}` returns, which it would throw away"
            return finding("PG731", at, what, "write `return` in front of the call")
        if own and above and (ignored := ignored_arguments(own, above)) is not None:
            what = f"{whole} passes other arguments in `{short(ignored)}`, which are ignored"
            return finding("PG729", at, what, "assign to the parent's parameters first")
        what = f"{whole} would have `{shown[0]}` where `{shown[1]}` is shipped"
        return finding("PG720", at, what)

    def _about(self, member: str, problem: Problem) -> Problem:
        return replace(problem, subject=(self.pair.name, member))

    def _at(self, node: ast.AST | None) -> Location:
        return self.case.at(self.pair.block, node)

    def _in_child(self, node: ast.stmt) -> ast.stmt | None:
        return next((s for s in self.own.others if dumped(s) == dumped(node)), None)


def _lost(ours: Sequence[ast.expr], theirs: Sequence[ast.expr]) -> str | None:
    """What became of decorators, in words; None where they are the same."""
    left, right = ([ast.unparse(d) for d in side] for side in (ours, theirs))
    if left == right:
        return None
    added, gone = [d for d in right if d not in left], [d for d in left if d not in right]
    parts = [f"is decorated by {', '.join(added)} of the parent"] if added else []
    parts += [f"loses {', '.join(gone)}"] if gone else []
    return " and ".join(parts) or "has its decorators in another order"
