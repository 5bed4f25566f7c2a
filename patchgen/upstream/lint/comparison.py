"""Put a shipped class beside the one that Python's inheritance would give, member by member.

In: a pair, the inherited class and the shipped one.  Out: a `Comparison`, about which each rule for
the whole class asks one question, and a `MethodComparison` for each method that differs.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.syntax.errors import Location, Problem
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.members import Members, members_of
from patchgen.upstream.lint.normalize import FunctionDef, dumped
from patchgen.upstream.lint.super_calls import named_super
from patchgen.upstream.lint.verdict import Verdict, compare_bodies


@dataclass(frozen=True)
class Comparison:
    """One class: `ours` is what Python would inherit, `theirs` what is shipped."""

    pair: Pair
    case: Case
    ours: ast.ClassDef
    theirs: ast.ClassDef

    @functools.cached_property
    def left(self) -> Members:
        """The members of `ours`."""
        return members_of(self.ours)

    @functools.cached_property
    def right(self) -> Members:
        """The members of `theirs`."""
        return members_of(self.theirs)

    @functools.cached_property
    def own(self) -> Members:
        """The members that the modular file writes: findings are shown there."""
        return members_of(self.pair.child)

    def at(self, node: ast.AST | None) -> Location:
        """The place of `node` in the modular file; without one, of the class."""
        return self.case.at(self.pair.block, node)

    def at_method(self, name: str) -> Location:
        """The place of the method in the modular file; of the class, where that inherits it."""
        return self.at(first_of(self.own, name))

    def about(self, member: str, problem: Problem) -> Problem:
        """`problem` with the member that it is about, by which causes are matched."""
        return replace(problem, subject=(self.pair.name, member))

    def differing_methods(self) -> Iterator[str]:
        """The names of methods of which the two classes have other definitions."""
        for name in dict.fromkeys((*self.left.methods, *self.right.methods)):
            left, right = self.left.methods.get(name, ()), self.right.methods.get(name, ())
            if list(map(dumped, left)) != list(map(dumped, right)):
                yield name


@dataclass(frozen=True)
class MethodComparison:
    """A method that both classes have, with different definitions."""

    whole: Comparison
    name: str
    left: FunctionDef
    right: FunctionDef

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"{self.whole.pair.name}.{self.name}"

    @property
    def at(self) -> Location:
        """Its place in the modular file."""
        return self.whole.at_method(self.name)

    @property
    def own(self) -> FunctionDef | None:
        """The method as the modular file writes it."""
        return first_of(self.whole.own, self.left.name)

    @property
    def above(self) -> FunctionDef | None:
        """The parent's method."""
        return first_of(members_of(self.whole.pair.above), self.left.name)

    @functools.cached_property
    def verdict(self) -> Verdict:
        """How the bodies differ."""
        return compare_bodies(self.left.body, self.right.body)


def compare_classes(pair: Pair, case: Case, ours: ast.ClassDef, theirs: ast.ClassDef) -> Comparison:
    """The comparison of both, in which `Base.method(self)` and `super().method()` are the same."""
    # By the shipped bases, for both: the inherited class may still name one that was replaced.
    bases = tuple(ast.unparse(base) for base in theirs.bases)
    return Comparison(pair, case, named_super(ours, bases), named_super(theirs, bases))


def compare_methods(whole: Comparison) -> Iterator[MethodComparison]:
    """The methods of which both classes have equally many definitions: a setter is a second one."""
    for name in whole.differing_methods():
        left, right = whole.left.methods.get(name, ()), whole.right.methods.get(name, ())
        if len(left) != len(right):
            continue
        for one, other in zip(left, right, strict=True):
            yield MethodComparison(whole, name, one, other)


def first_of(members: Members, name: str) -> FunctionDef | None:
    """The first definition of the method `name`."""
    definitions: Sequence[FunctionDef] = members.methods.get(name, ())
    return definitions[0] if definitions else None
