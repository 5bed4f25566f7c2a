"""Where two expressions differ, and how often one occurs in a method."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.author.align.suites import key
from patchgen.syntax.bound import parameters

# What `ast` counts as an expression and cannot stand alone as one, and strings, whose pieces have
# no text.
_NO_PLACE = (ast.Slice, ast.Starred, ast.JoinedStr, ast.FormattedValue)


def differing(old: ast.AST, new: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """The expressions around the one place where two nodes differ, the innermost first.

    Empty where they differ in more than one place that no expression holds together.  What reads a
    variable of a comprehension or lambda around it means nothing alone.
    """
    found: list[tuple[ast.expr, ast.expr]] = []
    own: set[str] = set()
    while True:
        if isinstance(old, ast.expr) and isinstance(new, ast.expr):
            names = {n.id for side in (old, new) for n in ast.walk(side) if isinstance(n, ast.Name)}
            is_alone = _can_stand(old) and _can_stand(new) and not names & own
            found += [(old, new)] if is_alone else []
        children = _children(old, new)
        if children is None:
            break
        differ = [(a, b) for a, b in children if key(a) != key(b)]
        if len(differ) != 1 or isinstance(old, ast.JoinedStr):
            break
        index = old.slice if isinstance(old, ast.Subscript) else None
        if differ[0][0] is index and isinstance(index, ast.Tuple):
            break  # the tuple of `x[a, b]` is no expression that could be written alone
        for side in (old, new):
            targets = [one.target for one in getattr(side, "generators", ())]
            own |= {n.id for one in targets for n in ast.walk(one) if isinstance(n, ast.Name)}
            own |= set(parameters(side)) if isinstance(side, ast.Lambda) else set()
        ((old, new),) = differ
    return found[::-1]


def _can_stand(node: ast.expr) -> bool:
    return not isinstance(node, _NO_PLACE)


def _children(old: ast.AST, new: ast.AST) -> list[tuple[ast.AST, ast.AST]] | None:
    """The child nodes pair by pair; None where something else differs."""
    if type(old) is not type(new):
        return None
    pairs: list[tuple[ast.AST, ast.AST]] = []
    for name, mine in ast.iter_fields(old):
        theirs = getattr(new, name)
        mine = mine if isinstance(mine, list) else [mine]
        theirs = theirs if isinstance(theirs, list) else [theirs]
        if len(mine) != len(theirs):
            return None
        for a, b in zip(mine, theirs, strict=True):
            if isinstance(a, ast.AST) and isinstance(b, ast.AST):
                if not isinstance(a, ast.expr_context):
                    pairs.append((a, b))
            elif a != b:
                return None
    return pairs


def expressions(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The keys of all expressions in `body`, as often as a pattern finds them."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr) and _can_stand(node):
                yield key(node)
