"""Find members of a class that differ, are missing or are too many.

    inherited       scale = 2
    shipped         scale = 1           PG722

Methods that both classes have are compared by other rules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.errors import Problem
from patchgen.upstream.lint.comparison import Comparison
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.normalize import dumped, same, short
from patchgen.upstream.lint.unrecognised_removals import is_raising


def other_attributes(whole: Comparison) -> Iterator[Problem]:
    """PG722: class attributes that differ, are missing or are too many."""
    for name in dict.fromkeys((*whole.left.attributes, *whole.right.attributes)):
        left, right = whole.left.attributes.get(name), whole.right.attributes.get(name)
        # Documentation has no behaviour.
        if same(left, right) or name == "__doc__":
            continue
        ours = short(left) if left else "nothing"
        theirs = short(right) if right else "nothing"
        what = f"{whole.pair.name}.{name} would be `{ours}`; shipped is `{theirs}`"
        at = whole.at(whole.own.attributes.get(name))
        yield whole.about(name, finding("PG722", at, what))


def lost_statements(whole: Comparison) -> Iterator[Problem]:
    """PG711: statements of the class body that bind no plain name, and are not shipped."""
    shipped = {dumped(statement) for statement in whole.right.others}
    for statement in whole.left.others:
        if dumped(statement) not in shipped:
            what = f"{whole.pair.name} loses `{short(statement)}` of its body"
            yield finding("PG711", whole.at(_find_in_child(statement, whole)), what)


def _find_in_child(statement: ast.stmt, whole: Comparison) -> ast.stmt | None:
    """The statement of the modular file that says the same; None where the parent does."""
    for own in whole.own.others:
        if dumped(own) == dumped(statement):
            return own
    return None


def unremoved_methods(whole: Comparison) -> Iterator[Problem]:
    """PG712: methods that would raise, and that the shipped class does not have."""
    for name in whole.differing_methods():
        if _would_raise(name, whole):
            what = f"{whole.pair.name}.{name} would raise, and is not in the shipped class at all"
            hint = "write `raise AttributeError()` where removal is meant"
            problem = finding("PG712", whole.at_method(name), what, hint)
            yield whole.about(name, problem)


def _would_raise(name: str, whole: Comparison) -> bool:
    left, right = whole.left.methods.get(name, ()), whole.right.methods.get(name, ())
    return bool(left) and not right and is_raising(left[0])


def other_methods(whole: Comparison) -> Iterator[Problem]:
    """PG721: methods that only one class has, or of which one has more definitions."""
    for name in whole.differing_methods():
        left, right = whole.left.methods.get(name, ()), whole.right.methods.get(name, ())
        if len(left) == len(right) or _would_raise(name, whole):
            continue
        title = f"{whole.pair.name}.{name}"
        if not left:
            what = f"{title} is in the shipped class only"
        elif not right:
            what = f"{title} is not in the shipped class"
        else:
            what = f"{title} would have {len(left)} definitions; shipped are {len(right)}"
        yield whole.about(name, finding("PG721", whole.at_method(name), what))
