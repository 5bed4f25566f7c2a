"""Where one side drops a copy of a variable (`scores = y`), drop it from all versions.

base     y = y.to(x.dtype)       ours     y = y.to(x.dtype)
         scores = y                       return y
         return scores           merged   y = y.to(x.dtype)
                                          return y
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.author.rebase.folding import fold, readers_of
from patchgen.author.rebase.versions import MethodText, Versions
from patchgen.syntax.bound import bound_names, names_in
from patchgen.syntax.same import plain_text


def without_copies(versions: Versions) -> Versions | None:
    """The versions without copies that one of them has no more; None where there are none."""
    parts = versions.base, versions.ours, versions.theirs
    gone = [
        text
        for text, name in _copies(versions.base)
        if any(name not in names_in([one.function]) for one in parts[1:])
    ]
    if not gone:
        return None
    base, ours, theirs = (_without(one, gone) for one in parts)
    if base is None or ours is None or theirs is None:
        return None
    return Versions(base, ours, theirs)


def _copies(version: MethodText) -> Iterator[tuple[str, str]]:
    """The copies at the top of a method, as plain text, with the names that they give."""
    for node in version.function.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name()):
                yield plain_text(node), name


def _without(version: MethodText, copies: Sequence[str]) -> MethodText | None:
    """A version that reads the variables themselves; None where these change further down."""
    for text in copies:
        body = version.function.body
        place = next((n for n, node in enumerate(body) if plain_text(node) == text), None)
        if place is None:
            continue
        readers = readers_of(version.function, body[place])
        later = names_in([body[place]]) & set(bound_names(body[place + 1 :]))
        if readers is None or later:
            return None
        version = fold(version, body[place], readers)
    return version
